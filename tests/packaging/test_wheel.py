"""What a user gets who installs the wheel and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from paths import ROOT

PROGRAM = """
import importlib.util, json, time
begun = time.perf_counter()
import demitasse as dt
encoder = dt.load()
encoder.encode(["hello"])
first = time.perf_counter() - begun
cuts = (dt.Cut(6, 384), dt.Cut(3, 128), dt.Cut(0, 32))
shapes = {str(cut): list(encoder.cut(*cut).encode(["a ristretto", "a lungo"]).shape) for cut in cuts}
absent = [p for p in ("torch", "transformers", "safetensors", "onnx", "scipy") if importlib.util.find_spec(p) is None]
print(json.dumps({"first": first, "shapes": shapes, "absent": absent}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(run, check=True, timeout=300)
    (built,) = folder.glob("demitasse-*.whl")
    return built


def test_the_wheel_holds_the_model_and_stays_small(wheel: Path) -> None:
    assert wheel.stat().st_size < 40e6
    names = set(ZipFile(wheel).namelist())
    assert {
        "demitasse/assets/model/layer_6.onnx",
        "demitasse/assets/model/README.md",
        "demitasse/assets/corpus.txt",
    } <= names
    assert {
        "demitasse/assets/report/page.html",
        "demitasse/assets/report/page.css",
        "demitasse/assets/report/choose.js",
    } <= names
    assert {"demitasse/assets/sample/pairs.jsonl", "demitasse/assets/sample/questions.jsonl"} <= names
    assert not any(name.startswith(("tests", "research", "benchmarks")) for name in names)


def test_the_wheel_alone_encodes_at_any_cut(wheel: Path, tmp_path: Path) -> None:
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    install = [
        str(python),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--constraint",
        str(ROOT / "constraints.txt"),
        str(wheel),
    ]
    subprocess.run(install, check=True, timeout=300)
    runs = [
        subprocess.run([str(python), "-c", PROGRAM], capture_output=True, text=True, cwd=tmp_path) for _ in range(3)
    ]
    assert runs[0].returncode == 0, runs[0].stderr
    results = [json.loads(run.stdout) for run in runs]
    assert results[0]["shapes"] == {"6x384": [2, 384], "3x128": [2, 128], "0x32": [2, 32]}
    assert results[0]["absent"] == ["torch", "transformers", "safetensors", "onnx", "scipy"]
    assert min(result["first"] for result in results) < 1.0  # seconds to the first vector, imports included
    packages = tmp_path / "env" / "lib"
    size = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file() and "/pip" not in str(path))
    assert size < 250e6
    command = subprocess.run(
        [str(python.parent / "demitasse"), "encode", "--cut", "3x128", "hello"], capture_output=True, text=True
    )
    assert len(json.loads(command.stdout)["vector"]) == 128
