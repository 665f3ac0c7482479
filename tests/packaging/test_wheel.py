"""What a user gets who installs the wheel and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from clean_install import CleanInstall
from paths import ROOT

pytestmark = pytest.mark.packaging


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(build, check=True)
    (built,) = folder.glob("demitasse-*.whl")
    return built


def test_the_wheel_contains_the_model_and_stays_small(wheel: Path) -> None:
    assert wheel.stat().st_size < 40e6
    names = set(ZipFile(wheel).namelist())
    assert {
        "demitasse/assets/model/layer_6.onnx",
        "demitasse/assets/model/README.md",
        "demitasse/assets/corpus.txt",
    } <= names
    assert {
        "demitasse/assets/web/page/index.html",
        "demitasse/assets/web/runtime/ort-wasm-small.wasm.packed",
        "demitasse/assets/web/runtime/ort-wasm-simd-threaded.wasm.packed",
        "demitasse/assets/report/page.html",
        "demitasse/assets/report/page.css",
        "demitasse/assets/report/choose.js",
        "demitasse/assets/pages/base.css",
        "demitasse/assets/pages/elements.js",
        "demitasse/assets/playground/page.html",
        "demitasse/assets/playground/page.js",
    } <= names
    assert {"demitasse/assets/sample/pairs.jsonl", "demitasse/assets/sample/questions.jsonl"} <= names
    assert not any(name.startswith(("tests", "research", "benchmarks")) for name in names)


def test_the_wheel_alone_encodes_at_any_cut(wheel: Path, tmp_path: Path) -> None:
    install = CleanInstall(wheel, tmp_path)
    install.check()
    assert install.megabytes() < 250
