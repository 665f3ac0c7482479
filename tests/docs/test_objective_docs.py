"""docs/objectives.md and docs/migrating.md: every option, name and block of code in them exists; the recipe runs."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import is_dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import typer
import zoo
from paths import ROOT

import demitasse
from demitasse.cli.app import app
from demitasse.objectives.names import LOSSES, OBJECTIVES, choice

RECIPE = ROOT / "research" / "ese_recipe.sh"
# Without the tables that research/tables.py writes from research/results/, which has options of its own.
PAGES = {
    name: re.sub(r"-->\n\|.*?<!-- end", "", (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    for name in ("objectives", "migrating")
}
MODEL = "sentence-transformers/all-MiniLM-L6-v2"
TORCHRUN = {"--standalone", "--nproc-per-node", "--module"}

# Every flag of the trainer of angle-emb 0.6.1 with its default.
FLAGS = """
    model_name_or_path required | load_mlm_model 0 | tokenizer_name_or_path None | pretrained_model_path None |
    pretrained_lora_path None | column_rename_mapping None | train_name_or_path required | train_subset_name None |
    train_split_name train | valid_name_or_path None | valid_subset_name None | valid_split_name train |
    valid_name_or_path_for_callback None | valid_subset_name_for_callback None | valid_split_name_for_callback train |
    text_prompt None | query_prompt None | doc_prompt None | filter_duplicate 0 | save_dir required | seed -1 |
    dataset_seed None | workers 2 | cosine_w 0.0 | ibn_w 1.0 | cln_w 1.0 | angle_w 0.02 | angle_tau 20 |
    cosine_tau 20 | ibn_tau 20 | apply_lora 0 | load_kbit None | lora_r 32 | lora_alpha 32 | lora_dropout 0.1 |
    lora_target_modules None | learning_rate 1e-5 | warmup_steps 100 | logging_steps 100 | pooling_strategy cls |
    epochs 10 | max_steps -1 | save_steps 100 | save_total_limit 1 | save_strategy steps | eval_steps 1000 |
    eval_strategy steps | batch_size 32 | maxlen 512 | streaming off | gradient_accumulation_steps 1 |
    torch_dtype None | fp16 None | bf16 None | push_to_hub 0 | hub_private_repo 1 | hub_model_id None |
    tokenizer_padding longest | tokenizer_padding_side None | is_llm 0 | apply_billm 0 | billm_model_class None |
    apply_ese 0 | ese_kl_temperature 1.0 | ese_compression_size 128 | teacher_name_or_path None |
    teacher_pooling_strategy cls | wandb_project None | wandb_log_model None | gradient_checkpointing 0 |
    use_reentrant 1
"""
EARLIER = (
    *("prompt_template", "fix_data", "coword_random_mask_rate", "w1", "w2", "w3", "start_bilayer_index"),
    *("apply_tdmse", "apply_tdmse_kl", "tdmse_kl_temperature", "tdmse_teacher_lambda", "tdmse_student_lambda"),
    "fixed_teacher_name_or_path",
)


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def spans(text: str) -> list[str]:
    """Code within lines of prose and tables."""
    return re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def commands(text: str) -> str:
    """All code in which options may stand: in lines, and in blocks of commands."""
    return "\n".join([*spans(text), *blocks(text, "bash")])


def rows(text: str) -> dict[str, list[str]]:
    """The rows of all tables by their first cell."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {first: rest for first, *rest in cells}


def options() -> set[str]:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    found = [parameter for command in group.commands.values() for parameter in command.params]
    return {name for parameter in found for name in (*parameter.opts, *parameter.secondary_opts)}


def test_every_flag_of_angle_emb_has_a_row() -> None:
    flags = dict(entry.split() for entry in FLAGS.split("|"))
    assert len(flags) == 71
    table = rows(PAGES["migrating"])
    assert {name: table[f"`{name}`"][0] for name in flags} == flags
    for name in (*flags, *EARLIER):
        assert table[f"`{name}`"][-1], name


@pytest.mark.parametrize("text", [*PAGES.values(), RECIPE.read_text()], ids=[*PAGES, "recipe"])
def test_every_option_exists(text: str) -> None:
    code = text if text.startswith("#!") else commands(text)
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z_-]*", code)) - TORCHRUN
    assert len(named) > 2
    assert named <= options()


@pytest.mark.parametrize("text", [*PAGES.values(), RECIPE.read_text()], ids=[*PAGES, "recipe"])
def test_every_choice_can_be_made(text: str) -> None:
    code = text if text.startswith("#!") else commands(text)
    chosen = set(re.findall(r"--(objective|loss) ([a-z][\w=.,:/-]*|2dmse[\w=.,:/-]*)", code))
    for spelt in set(re.findall(r"(?<![\w-])([\w-]+:\w+=[\w=.,/-]+)", code)):
        chosen.add(("objective" if spelt.partition(":")[0] in OBJECTIVES else "loss", spelt))
    assert chosen
    for what, spelt in chosen:
        choice(spelt, OBJECTIVES if what == "objective" else LOSSES, what)


def test_every_objective_has_a_section_and_its_two_lines() -> None:
    page = PAGES["objectives"]
    headings = " ".join(re.findall(r"^##+ (.*)$", page, flags=re.MULTILINE))
    for name, objective in OBJECTIVES.items():
        kind = type(objective).__name__
        assert f"`{kind}`" in headings
        assert f"`{kind}`" in rows(page)
        assert f"`dt.{kind}(" in page
        assert f"--objective {name}" in page
    for name, loss in LOSSES.items():
        assert f"--loss {name}" in page
        assert type(loss).__name__ in page


@pytest.mark.parametrize("name", PAGES)
def test_every_name_and_field_exists(name: str) -> None:
    code = [*spans(PAGES[name]), *blocks(PAGES[name], "python")]
    assert set(re.findall(r"\bdt\.(\w+)", "\n".join(code))) <= set(demitasse.__all__)
    for span in spans(PAGES[name]):
        made = re.match(r"dt\.(\w+)\(.*\)$", span, flags=re.DOTALL)
        if made and is_dataclass(getattr(demitasse, made[1])):
            eval(span, {"dt": demitasse})


def imported(block: str) -> list[tuple[str, str]]:
    found = [node for node in ast.walk(ast.parse(block)) if isinstance(node, ast.ImportFrom)]
    return [(node.module or "", name.name) for node in found for name in node.names]


@pytest.mark.parametrize("name", PAGES)
def test_the_python_of_the_pages_runs(
    name: str, model_folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it but training itself, whose arguments are looked at."""
    monkeypatch.chdir(tmp_path)
    write_triples(tmp_path / "pairs.jsonl")
    write_triples(tmp_path / "triples.jsonl")
    trained: list[inspect.BoundArguments] = []
    signature = inspect.signature(demitasse.train)
    monkeypatch.setattr("demitasse.training.train.train", lambda *a, **k: trained.append(signature.bind(*a, **k)))

    class Trainer:
        def __init__(self, *, model: object, train_dataset: object, loss: object) -> None:
            assert callable(loss)

        def train(self) -> None: ...

    monkeypatch.setattr("sentence_transformers.SentenceTransformerTrainer", Trainer)
    names: dict[str, object] = {"dataset": []}
    for block in blocks(PAGES[name], "python"):
        for module, wanted in imported(block):
            assert hasattr(importlib.import_module(module), wanted)
        exec(block.replace(MODEL, str(model_folder("MiniLM shape"))), names)
    assert len(trained) == 1
    encoder, objective = trained[0].arguments["encoder"], trained[0].arguments["objective"]
    assert objective.cuts(encoder.full)


def write_triples(path: Path) -> None:
    texts = zoo.sentences(120, seed=5)
    lines = [dict(zip(("text", "positive", "negative"), texts[row::40], strict=True)) for row in range(40)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def recipe(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **variables}
    words = ["bash", *map(str, arguments)]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.posix
def test_the_recipe_can_be_read() -> None:
    assert recipe("-n", RECIPE).returncode == 0
    alone = recipe(RECIPE)
    assert alone.returncode == 2
    assert alone.stderr.startswith("usage: ")


@pytest.mark.posix
@pytest.mark.parametrize(
    ("rows", "nproc", "expected"), [(40, "1", 1.0), (512 * 800, "1", 0.25), (512 * 4 * 400, "4", 0.5)]
)
def test_the_recipe_says_what_the_readme_of_ese_says(rows: int, nproc: str, expected: float, tmp_path: Path) -> None:
    for name in ("python", "torchrun"):  # in their stead, something that says what it was given
        (tmp_path / name).write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "t.jsonl").write_text("{}\n" * rows)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    run = recipe(RECIPE, "m", tmp_path / "t.jsonl", "out", "--seed", "7", NPROC=nproc, PATH=path)
    program, *given = run.stdout.splitlines()
    assert Path(program).name == ("python" if nproc == "1" else "torchrun"), run.stderr
    assert given[-2:] == ["--seed", "7"]
    value = dict(pairwise(given))
    assert float(value["--warmup"]) == expected
    assert value["--batch"] == str(128 * int(nproc))
    assert [value[name] for name in ("--accumulate", "--rate", "--max-tokens", "--epochs", "--precision")] == [
        *("4", "1e-6", "75", "1", "fp16")
    ]
    assert choice(value["--objective"], OBJECTIVES, "objective") == demitasse.EspressoReleased(dims=128)
    loss = demitasse.AnglE(cosine_weight=0, in_batch_weight=10, angle_weight=1, angle_scale=20)
    assert choice(value["--loss"], LOSSES, "loss") == loss


@pytest.mark.posix
def test_the_recipe_runs(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    write_triples(tmp_path / "triples.jsonl")
    few = ("--steps", "2", "--batch", "8", "--precision", "fp32")
    run = recipe(RECIPE, model_folder("MiniLM shape"), tmp_path / "triples.jsonl", tmp_path / "out", *few)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "out" / "model" / "modules.json").is_file()
    described = json.loads((tmp_path / "out" / "run.json").read_text())
    assert described["objective"]["name"] == "EspressoReleased"
    assert described["options"]["warmup"] == 1
    assert described["steps"] == 2
