"""README does what it says: its code runs, its tables are what results/ holds, its file tree is the one there is."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zoo
from paths import ROOT

from demitasse.cli.app import main

README = (ROOT / "README.md").read_text()
MODEL = "sentence-transformers/all-MiniLM-L6-v2"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sentences.txt").write_text("\n".join(zoo.sentences(300)))
    pairs = zip(zoo.sentences(200, seed=1), zoo.sentences(200, seed=2), strict=True)
    rows = [json.dumps({"anchor": a, "positive": b}) for a, b in pairs]
    (tmp_path / "pairs.jsonl").write_text("\n".join(rows))
    scored = zip(zoo.sentences(40, seed=3), zoo.sentences(40, seed=4), range(40), strict=True)
    rows = [json.dumps({"a": a, "b": b, "score": score % 6}) for a, b, score in scored]
    (tmp_path / "mine.jsonl").write_text("\n".join(rows))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("demitasse.training.refine_exits.ORDER_STEPS", 3)
    monkeypatch.setattr("demitasse.training.refine_exits.REFINE_STEPS", 3)
    return tmp_path


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # a README may read a file in one line
def test_the_python_of_the_readme_runs(place: Path, model_folder: Callable[..., Path]) -> None:
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(block.replace(MODEL, str(model_folder("MiniLM shape"))), names)
    assert (place / "small" / "modules.json").is_file()
    assert (place / "blocks" / "layer_6.onnx").is_file()
    assert {str(cut) for cut in names["by_cut"]} == {"1x64", "1x384", "3x64", "3x384", "6x64", "6x384"}  # type: ignore[attr-defined]


def test_the_commands_of_the_readme_run(
    place: Path, model_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line for block in blocks("bash") for line in block.splitlines() if line.startswith("demitasse ")]
    assert len(lines) == 17
    handler = signal.getsignal(signal.SIGTERM)
    for line in lines:
        line = line.replace("--latency-ms 2", "--latency-ms 5000")  # which any machine meets, however busy
        if line.startswith("demitasse measure "):
            line += " --rounds 2 --seconds 1"
        monkeypatch.setattr(sys, "argv", shlex.split(line.replace(MODEL, str(model_folder("MiniLM shape")))))
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0, line
    signal.signal(signal.SIGTERM, handler)
    assert (place / "vectors.npy").is_file()
    assert (place / "grid.png").is_file()
    assert (place / "blocks" / "exit_6.onnx").is_file()
    assert (place / "small" / "modules.json").is_file()


def test_tables_are_what_the_results_hold() -> None:
    check = subprocess.run([sys.executable, ROOT / "research" / "tables.py", "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stderr


def test_the_file_tree_is_current() -> None:
    (tree,) = re.findall(r"```\n(src/demitasse/\n.*?)```", README, flags=re.DOTALL)
    listed = set(re.findall(r"^  (\w+\.py) ", tree, flags=re.MULTILINE))
    there = {path.name for path in (ROOT / "src" / "demitasse").glob("*.py")}
    assert listed == there - {"__main__.py", "_version.py"}
    for folder in re.findall(r"^(\S+) ", tree, flags=re.MULTILINE):
        assert (ROOT / folder).exists(), folder
