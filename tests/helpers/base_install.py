"""Use the base install as a user would who has no extra: everything can be looked at, and what is missing says so.

    python tests/helpers/base_install.py

`make lowest` runs this with the lowest versions that pyproject.toml allows; tests/test_extras.py runs it with all
optional packages blocked. It needs nothing but demitasse.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import rlcompleter
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from unittest.mock import create_autospec

import numpy as np

import demitasse as dt

CLASSES = ("Elastic", "Espresso", "TrainOptions")
FUNCTIONS = {"train": "train", "fit_exits": "train", "export": "export", "mteb_model": "mteb"}
PROMISED = ("numpy", "onnxruntime", "tokenizers", "rich", "typer")
COMMANDS = (
    *("encode", "embed", "fit", "train", "eval", "measure", "plan", "check", "report", "info", "cut", "export"),
    *("index", "search", "serve", "web", "demo"),
)


def refused(action: object, extra: str) -> None:
    """Assert that calling `action` ends with the line to type."""
    assert callable(action)
    said = ""
    try:
        action()
    except dt.MissingExtra as missing:
        said = str(missing)
    assert f"pip install 'demitasse[{extra}]'" in said, said


def check_names() -> None:
    """Every public name can be looked at; the ones whose extra is missing are refused when they are used."""
    stars: dict[str, object] = {}
    exec("from demitasse import *", stars)
    assert {*dt.__all__} <= {*stars}
    assert all(hasattr(dt, name) for name in dt.__all__)
    assert {name for name, _ in inspect.getmembers(dt)} >= {*dt.__all__}
    assert create_autospec(dt).load is not None
    page = io.StringIO()
    with contextlib.redirect_stdout(page):
        help(dt)
    assert all(name in page.getvalue() for name in dt.__all__ if name != "__version__")
    completer = rlcompleter.Completer({"dt": dt})
    found = {str(completer.complete("dt.E", number)).rstrip("()") for number in range(9)}
    assert {"dt.Elastic", "dt.Encoder", "dt.Espresso", "dt.Evaluation"} <= found, found
    for name in CLASSES:
        absent = getattr(dt, name)
        assert absent is getattr(dt, name)
        assert not isinstance(dt.Cut(1, 2), absent)
        assert not issubclass(dt.Cut, absent)
        assert not hasattr(absent, "dims")
        refused(absent, "train")
        refused(lambda absent=absent: type("Own", (absent,), {}), "train")
    for name, extra in FUNCTIONS.items():
        refused(getattr(dt, name), extra)


def check_vectors() -> None:
    """The built-in model gives its vectors: alone and in a batch, at several cuts, with words seen before."""
    texts = ["a ristretto", "a lungo", "how to make better espresso at home", ""]
    encoder = dt.load()
    for cut in (dt.Cut(6, 384), dt.Cut(3, 128), dt.Cut(0, 32)):
        small = encoder.cut(cut)
        together = small.encode(texts)
        alone = np.concatenate([small.encode([text]) for text in texts])
        assert together.shape == (len(texts), cut.dims)
        assert together.dtype == np.float32
        assert np.abs(together - alone).max() < 1e-5
        assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    near, far = encoder.encode(["an espresso machine", "the bank of the river"]) @ encoder.encode(["coffee maker"]).T
    assert near > far + 0.2


def check_index() -> None:
    """An index is built, changed and searched by every first pass."""
    texts = [f"{cup} number {number}" for number in range(30) for cup in ("a ristretto", "a bus to the river")]
    with tempfile.TemporaryDirectory() as folder:
        index = dt.Index.build(dt.load().cut(1, 128), texts, Path(folder) / "index")
        index.add(["an espresso machine"], ids=["machine"], metadata=[{"year": 1901}])
        index.delete(["0"])
        index.compact()
        for coarse in ("none", "bits", "dims"):
            scan = dt.Scan(coarse, shortlist=40)
            assert index.search("a machine for espresso", k=1, scan=scan)[0].id == "machine"
        assert [hit.id for hit in index.search("coffee", where={"year": {"lt": 2000}})] == ["machine"]
        assert index.verify() == {}
        refused(lambda: index.compact(graph=True), "ann")


def check_commands() -> None:
    """Every command shows its help, and encode, eval and info work from a shell."""
    for command in ((), *((name,) for name in COMMANDS)):
        shown = shell(*command, "--help")
        assert "Usage:" in shown, shown
        assert "Options" in shown, shown
    assert len(json.loads(shell("encode", "--cut", "3x128", "hello"))["vector"]) == 128
    assert "layers" in shell("eval", "--layers", "0,1", "--dims", "32", "--resamples", "50")
    assert "6x384" in shell("info")
    for wrong in (("encode", "--nope"), ("encode", "--cut", "six", "hello"), ("eval", "--resamples", "x")):
        assert "Traceback" not in shell(*wrong, code=2)


def shell(*arguments: str, code: int = 0) -> str:
    """What `demitasse …` printed, on stdout or, if it failed, on stderr."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "demitasse", *arguments]
        run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=folder, check=False)
    assert run.returncode == code, run.stderr
    return run.stderr if code else run.stdout


def main() -> None:
    check_names()
    check_vectors()
    check_index()
    check_commands()
    versions = ", ".join(f"{name} {version(name)}" for name in PROMISED)
    print(f"Python {sys.version.split()[0]} with {versions}: names, vectors and commands work without any extra")
    assert Path(dt.__file__).is_file()


if __name__ == "__main__":
    main()
