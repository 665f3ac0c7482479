from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import zoo
from command_line import RunCommand

from demitasse import Cut, load, read_profile
from demitasse.encoding.vectors import STORED

FEW = ("--layers", "1,6", "--dims", "32,384", "--rounds", "2", "--seconds", "1")


def test_the_built_in_model_is_measured(run: RunCommand, profile_folder: Path) -> None:
    ran = run("measure", *FEW, "--json", "made/p.json", "--report", "made/p.html")
    assert ran.code == 0, ran.err
    assert ran.err == "made/p.json written\nmade/p.html written\n"
    assert "quality: mean of Spearman on sample-pairs and nDCG@10 on sample-search" in " ".join(ran.out.split())
    profile = read_profile(profile_folder / "made" / "p.json")
    assert profile.model == "built-in"
    assert {row.cut for row in profile.rows} == {Cut(1, 32), Cut(1, 384), Cut(6, 32), Cut(6, 384)}
    assert {row.vectors for row in profile.rows} == set(STORED)
    assert profile.full.cut == Cut(6, 384)
    assert "<html" in (profile_folder / "made" / "p.html").read_text(encoding="utf-8")
    for command in (("plan", "made/p.json", "--min-quality", "90%"), ("check", "made/p.json", "--model-mb", "100")):
        assert run(*command).code == 0


def test_the_base_installation_is_enough(profile_folder: Path) -> None:
    lines = [
        ["measure", "--layers", "0", "--dims", "32", "--rounds", "2", "--seconds", "1", "--json", "p.json"],
        ["plan", "p.json", "--vector-bytes", "4", "--export", "small"],
        ["check", "p.json", "--vector-bytes", "1536"],
        ["report", "p.json", "--out", "p.html"],
    ]
    program = (
        "import sys\n"
        "for name in ('torch', 'transformers', 'onnx', 'matplotlib', 'huggingface_hub'): sys.modules[name] = None\n"
        "from demitasse.cli.app import app\n"
        f"for line in {lines}: app(line, standalone_mode=False)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert load("small").full == Cut(0, 32)
    assert (profile_folder / "p.html").is_file()


def test_texts_need_no_labels_and_json_goes_to_stdout(run: RunCommand, profile_folder: Path) -> None:
    (profile_folder / "texts.txt").write_text("\n".join(zoo.sentences(60)))
    ran = run("measure", *FEW, "--texts", "texts.txt", "--batch", "8", "--json", "-")
    assert ran.code == 0, ran.err
    profile = json.loads(ran.out)
    assert profile["measure"].startswith("agreement with the full model on ")
    assert profile["batch"] == 8
    assert max(row["quality"] for row in profile["rows"]) == pytest.approx(100)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tasks", "sample", "--texts", "t.txt"), "--tasks and --texts were both given"),
        (("--data", "."), "--data was given without --tasks"),
        (("--json", "."), "--json . is a folder; give a file name, or - for stdout"),
        (("--report", "new.json"), "'new.json'"),
        pytest.param(
            ("--json", "/proc/nothing/p.json"), "--json /proc/nothing/p.json cannot be written", marks=pytest.mark.posix
        ),
        (("--layers", "7"), "cut 7x32 is deeper"),
        (("--layers", "one"), "--layers 'one' cannot be parsed"),
        (("--precision", "fp64"), "'fp64'"),
        (("--precision", "fp32"), "fp32"),
        (("--texts", "nowhere.txt"), "nowhere.txt"),
        (("--tasks", "nowhere"), "nowhere"),
        (("./nowhere",), "./nowhere"),
    ],
)
def test_mistakes_are_reported_before_anything_is_measured(
    run: RunCommand, profile_folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    ran = run("measure", *arguments)
    assert ran.code == 2
    assert ran.err.startswith("error: ")
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert ran.out == ""
