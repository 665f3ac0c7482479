"""`demitasse train` with teachers, from files to a model that can be searched with their documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import zoo
from command_line import RunCommand

from demitasse import load, load_teacher

SENTENCES = list(dict.fromkeys(zoo.sentences(500, seed=3)))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Plain texts, and pairs of queries and documents."""
    monkeypatch.setattr("demitasse.training.refine_exits.ORDER_STEPS", 3)
    (tmp_path / "plain.txt").write_text("\n".join(SENTENCES[:250]))
    pairs = [{"anchor": a, "positive": b} for a, b in zip(SENTENCES[250:300], SENTENCES[300:350], strict=True)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    return [tmp_path / "plain.txt", tmp_path / "pairs.jsonl"]


def test_teachers_from_the_command_line(
    model: Path, model_folder: Callable[..., Path], files: list[Path], run: RunCommand, tmp_path: Path
) -> None:
    teachers = model_folder("NomicBert", dense=48), model_folder("ELECTRA")
    objective = f"aligned:teachers={teachers[0]}+{teachers[1]},weights=0.6/0.4,prompts=true,dims=8/32,contrast=0.1"
    sizes = ("--steps", 3, "--batch", 32, "--batch-tokens", 300)
    more = ("--role", "sentence", "--role", "query/document", "--weight", 1, "--weight", 3)
    command = ("train", *files, "--base", model, "-O", objective, *sizes, *more, "--device", "cpu")
    result = run(*command, "--vectors", tmp_path / "vectors", "--out", tmp_path / "run")
    assert result.code == 0, result.err
    assert "exits at 0-3" in result.out
    assert len(list((tmp_path / "vectors").iterdir())) == 2
    trained = load(tmp_path / "run" / "model", device="cpu")
    assert trained.teacher_space is not None
    assert [teacher.weight for teacher in trained.teacher_space.teachers] == pytest.approx([0.6, 0.4])
    assert trained.teacher_space.teachers[1].prompts == {"query": "kan lor ", "document": "mist "}
    assert load_teacher(trained, *teachers, device="cpu").encode_document(SENTENCES[:2]).shape == (2, 32)
    described = json.loads((tmp_path / "run" / "run.json").read_text())
    assert described["options"]["batch_tokens"] == 300
    assert described["data"][1]["roles"] == ["query", "document"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("-O", "aligned"), "Aligned was given no teachers"),
        (("-O", "aligned:teachers=not/there"), "there is no folder 'not/there'"),
        (("-O", "aligned:teachers=a,weights=1/2"), "2 weights for 1 teachers"),
        (("--role", "query/passage", "--role", ""), "roles= has 'query/passage'"),
        (("--role", "query/document"), "roles= has 1 entries for 2 sources"),
        (("--batch-tokens", 0), "batch_tokens must be a whole number of at least 1, not 0"),
    ],
)
def test_mistakes_are_one_sentence(
    given: tuple[object, ...], said: str, model: Path, files: list[Path], run: RunCommand, tmp_path: Path
) -> None:
    result = run("train", *files, "--base", model, "--out", tmp_path / "run", *given)
    assert result.code == 2
    assert said in result.err
    assert result.err.count("\n") == 1
    assert not (tmp_path / "run").exists()
