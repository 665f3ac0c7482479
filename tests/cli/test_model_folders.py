"""Where commands write a model, and where they do not."""

from __future__ import annotations

import json
from collections.abc import Callable
from inspect import signature
from pathlib import Path

import pytest
import zoo
from command_line import RunCommand

from demitasse import Cut, Encoder, load
from demitasse.cli.export import export as export_command
from demitasse.encoding.manifest import MANIFEST
from demitasse.exporting import export as exporting


@pytest.fixture
def commands(model: Path, tmp_path: Path) -> dict[str, Callable[[Path], list[object]]]:
    """The commands that write a model made of `model`, each as a function of its folder."""
    (tmp_path / "lines.txt").write_text("\n".join(zoo.sentences(300)))
    pairs = [{"anchor": a, "positive": b} for a, b in zip(zoo.sentences(9), zoo.sentences(9, seed=1), strict=True)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    made: dict[str, Callable[[Path], list[object]]] = {
        "cut": lambda out: ["cut", model, "1x8", "--out", out],
        "export": lambda out: ["export", model, "--out", out],
        "fit": lambda out: ["fit", tmp_path / "lines.txt", "--base", model, "--out", out],
        "plan": lambda out: ["plan", "--model", model, "--vector-bytes", 64, "--export", out],
    }
    return made


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails if a model is loaded, which every command does before its work."""

    def load_(*arguments: object, **options: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("demitasse.encoding.loading.load", load_)


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("command", ["cut", "export", "fit", "plan"])
def test_files_of_others_are_seen_before_the_work(
    command: str, commands: dict[str, Callable[[Path], list[object]]], run: RunCommand, tmp_path: Path
) -> None:
    for name in ("README.md", ".git/HEAD", "data/a.csv"):
        (tmp_path / "repo" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "repo" / name).write_text("mine")
    result = run(*commands[command](tmp_path / "repo"))
    assert result.code == 2
    assert "repo exists and is not a demitasse model (.git/, README.md, data/); choose a new folder, or" in result.err
    assert len(list((tmp_path / "repo").rglob("*"))) == 5


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("command", ["cut", "export", "fit", "plan"])
@pytest.mark.parametrize("out", [".", "../work", "/"])
def test_the_working_directory_is_seen_before_the_work(
    out: str,
    command: str,
    commands: dict[str, Callable[[Path], list[object]]],
    run: RunCommand,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    before = sorted(path.name for path in tmp_path.iterdir())
    result = run(*commands[command](Path(out)))
    assert result.code == 2
    assert "cannot be replaced; name a folder below it, such as" in result.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert Path.cwd() == tmp_path / "work"


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("command", ["cut", "export", "fit", "plan"])
def test_a_model_is_not_replaced_by_what_is_made_of_it(
    command: str,
    commands: dict[str, Callable[[Path], list[object]]],
    encoder: Encoder,
    model: Path,
    run: RunCommand,
    tmp_path: Path,
) -> None:
    encoder.save(tmp_path / "m")
    arguments = [tmp_path / "m" if part == model else part for part in commands[command](tmp_path / "m")]
    result = run(*arguments)
    assert result.code == 2
    assert "m is the folder that the model was loaded from; choose a new folder, or use force (--force)" in result.err


def test_with_force_a_cut_replaces_its_model_and_keeps_what_is_yours(
    encoder: Encoder, run: RunCommand, tmp_path: Path
) -> None:
    encoder.save(tmp_path / "m")
    (tmp_path / "m" / "README.md").write_text("mine")
    (tmp_path / "m" / "data").mkdir()
    (tmp_path / "m" / "data" / "a.csv").write_text("mine")
    assert run("cut", tmp_path / "m", "1x8", "--out", tmp_path / "m", "--force").code == 0
    assert load(tmp_path / "m").full == Cut(1, 8)
    assert (tmp_path / "m" / "README.md").read_text() == (tmp_path / "m" / "data" / "a.csv").read_text() == "mine"


def test_with_force_an_export_goes_beside_what_is_yours(
    model: Path, run: RunCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "corpus", lambda: zoo.sentences(200))
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "README.md").write_text("mine")
    assert run("export", model, "--cut", "1x8", "--out", tmp_path / "repo", "--force").code == 0
    assert (tmp_path / "repo" / "README.md").read_text() == "mine"
    assert json.loads((tmp_path / "repo" / MANIFEST).read_text())["precision"] == "int8"
    assert load(tmp_path / "repo").full == Cut(1, 8)


def test_the_command_and_the_function_export_the_same_by_default() -> None:
    defaults = [signature(function).parameters["format"].default for function in (exporting.export, export_command)]
    assert defaults == ["blocks-int8", "blocks-int8"]


@pytest.mark.usefixtures("no_work")
def test_a_run_is_not_started_among_files_of_others(run: RunCommand, model: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("ten years")
    result = run("train", tmp_path / "no-such-data.jsonl", "--base", model, "--out", tmp_path / "run")
    assert result.code == 2
    assert "run is not empty (thesis.tex); choose a new folder, or use force (--force), which keeps these" in result.err


def test_verify_is_a_line_for_each_wrong_file(encoder: Encoder, run: RunCommand, tmp_path: Path) -> None:
    whole = run("info", "--verify")
    assert (whole.code, whole.out) == (0, "the built-in model is whole\n")
    encoder.save(tmp_path / "m")
    (tmp_path / "m" / "config.json").unlink()
    (tmp_path / "m" / "notes.json").write_text("{}")
    wrong = run("info", tmp_path / "m", "--verify")
    assert wrong.code == 2
    assert wrong.out.splitlines() == [
        "config.json cannot be read (No such file or directory)",
        f"notes.json is not listed in {MANIFEST}",
    ]
    plain = json.loads(run("info", tmp_path / "m", "--verify", "--json").out)
    assert plain["whole"] is False
    assert list(plain["wrong"]) == ["config.json", "notes.json"]
    assert json.loads(run("info", "--verify", "--json").out) == {
        "model": "the built-in model",
        "whole": True,
        "wrong": {},
    }
