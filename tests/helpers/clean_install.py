"""Install a wheel or an sdist in a fresh environment and use it as a user would, from Python and from a shell.

    python tests/helpers/clean_install.py dist/demitasse-0.1.0-py3-none-any.whl dist/demitasse-0.1.0.tar.gz

`make dist` runs this on what it has built; tests/packaging uses the same functions.
Only the standard library is needed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from paths import ROOT

HEAVY = ("torch", "transformers", "safetensors", "onnx", "scipy")  # what the base install must do without
SHAPES = {"6x384": [2, 384], "3x128": [2, 128], "0x32": [2, 32]}
# All that the first vector may import: what is imported decides how soon it is there, on any machine.
IMPORTED = ["demitasse", "numpy", "onnxruntime", "tokenizers"]

PROGRAM = f"""
import importlib.util, json, sys
import demitasse as dt
encoder = dt.load()
encoder.encode(["hello"])
installed = (name for name, module in sys.modules.items() if "site-packages" in (getattr(module, "__file__", "") or ""))
imported = sorted({{name.partition(".")[0] for name in installed}} - {{"_distutils_hack"}})
cuts = [dt.Cut.parse(text) for text in {list(SHAPES)!r}]
shapes = {{str(cut): list(encoder.cut(*cut).encode(["a ristretto", "a lungo"]).shape) for cut in cuts}}
present = [name for name in {HEAVY!r} if importlib.util.find_spec(name)]
print(json.dumps({{"imported": imported, "shapes": shapes, "present": present, "version": dt.__version__}}))
"""


class CleanInstall:
    """A fresh environment in `folder` that holds `distribution`, its dependencies and nothing else."""

    def __init__(self, distribution: Path, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
        # pip, setuptools and what comes with them, such as pkg_resources.
        self._given = {path.name for path in self._packages.iterdir()}
        pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        constraints = ["--constraint", str(ROOT / "constraints.txt")]
        self._run(self.program("python"), *pip, *constraints, str(distribution.resolve()))

    def program(self, name: str) -> str:
        """The path of one of the environment's programs."""
        scripts = self.folder / "env" / ("Scripts" if os.name == "nt" else "bin")
        return str(scripts / name)

    def python(self) -> dict[str, Any]:
        """What a Python program that encodes a few texts reports."""
        return dict(json.loads(self._run(self.program("python"), "-c", PROGRAM)))

    def command(self, *arguments: str) -> str:
        """What the command line prints."""
        return self._run(self.program("demitasse"), *arguments)

    def megabytes(self) -> float:
        """The size of all packages, without what every environment starts with."""
        added = [path for path in self._packages.iterdir() if path.name not in self._given]
        files = [path for one in added for path in (one, *one.rglob("*")) if path.is_file()]
        return sum(path.stat().st_size for path in files) / 1e6

    @property
    def _packages(self) -> Path:
        (packages,) = (self.folder / "env").rglob("site-packages")
        return packages

    def check(self) -> None:
        """Encode from Python and from a shell, without any of the heavy packages."""
        report = self.python()
        assert report["shapes"] == SHAPES, report["shapes"]
        assert not report["present"], f"the base install pulled in {report['present']}"
        assert report["imported"] == IMPORTED, f"the first vector imported {report['imported']}"
        printed = self.command("encode", "--cut", "3x128", "hello")
        assert len(json.loads(printed)["vector"]) == 128, printed

    def _run(self, *command: str) -> str:
        """Run it outside the checkout, so that nothing of the checkout is imported."""
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8", cwd=self.folder, env=clean
        ).stdout


def main() -> None:
    for name in sys.argv[1:]:
        distribution = Path(name)
        with tempfile.TemporaryDirectory() as folder:
            install = CleanInstall(distribution, Path(folder))
            install.check()
            sizes = f"{distribution.stat().st_size / 1e6:.1f} MB, {install.megabytes():.0f} MB installed"
        print(f"{distribution.name}: {sizes}; encodes from Python and from a shell, without torch")


if __name__ == "__main__":
    main()
