"""The commands measure, plan and check, run as they are typed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zoo
from command_line import Ran
from profiles import made_profile

from demitasse import Cut, Encoder, MeasureOptions, Profile, load, read_profile
from demitasse.encoding.vectors import STORED
from demitasse.host.bundled import BUILT_IN

FEW = ("--layers", "1,6", "--dims", "32,384", "--rounds", "2", "--seconds", "1")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a profile made by hand, and a later one that is slower and worse."""
    monkeypatch.chdir(tmp_path)
    made_profile().save("old.json")
    made_profile(slower=1.3, worse=1.0).save("new.json")
    return tmp_path


def test_the_built_in_model_is_measured(run: Callable[..., Ran], place: Path) -> None:
    ran = run("measure", *FEW, "--json", "made/p.json", "--report", "made/p.html")
    assert ran.code == 0, ran.err
    assert ran.err == "made/p.json written\nmade/p.html written\n"
    assert "quality: mean of Spearman on sample-pairs and nDCG@10 on sample-search" in " ".join(ran.out.split())
    profile = read_profile(place / "made" / "p.json")
    assert profile.model == "built-in"
    assert {row.cut for row in profile.rows} == {Cut(1, 32), Cut(1, 384), Cut(6, 32), Cut(6, 384)}
    assert {row.vectors for row in profile.rows} == set(STORED)
    assert profile.full.cut == Cut(6, 384)
    assert "<html" in (place / "made" / "p.html").read_text(encoding="utf-8")
    for command in (("plan", "made/p.json", "--min-quality", "90%"), ("check", "made/p.json", "--model-mb", "100")):
        assert run(*command).code == 0


def test_the_base_installation_is_enough(place: Path) -> None:
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
    assert (place / "p.html").is_file()


def test_texts_without_labels_and_json_on_stdout(run: Callable[..., Ran], place: Path) -> None:
    (place / "texts.txt").write_text("\n".join(zoo.sentences(60)))
    ran = run("measure", *FEW, "--texts", "texts.txt", "--batch", "8", "--json", "-")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["measure"].startswith("agreement with the full model on ")
    assert found["batch"] == 8
    assert max(row["quality"] for row in found["rows"]) == pytest.approx(100)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tasks", "sample", "--texts", "t.txt"), "--tasks and --texts were both given"),
        (("--data", "."), "--data was given without --tasks"),
        (("--json", "."), "--json . is a folder; give the name of a file, or - for stdout"),
        (("--report", "new.json"), "'new.json' is no name of a page"),
        (("--json", "/proc/nothing/p.json"), "--json /proc/nothing/p.json cannot be written"),
        (("--layers", "7"), "cut 7x32 is deeper than this encoder (6x384)"),
        (("--layers", "one"), "--layers 'one' cannot be read"),
        (("--precision", "fp64"), "precisions is ['fp64']; give a list of some of"),
        (("--precision", "fp32"), "this model cannot be measured in fp32; choose int8"),
        (("--texts", "nowhere.txt"), "cannot read 'nowhere.txt'"),
        (("--tasks", "nowhere"), "nowhere"),
        (("./nowhere",), "there is no folder './nowhere'"),
    ],
)
def test_what_cannot_be_measured_is_said_at_once(
    run: Callable[..., Ran], place: Path, arguments: tuple[str, ...], said: str
) -> None:
    ran = run("measure", *arguments)
    assert ran.code == 2
    assert ran.err.startswith("error: ")
    assert said in ran.err
    assert ran.err.count("\n") == 1
    assert ran.out == ""


def test_a_plan_says_what_to_use_and_what_it_gives_up(run: Callable[..., Ran], place: Path) -> None:
    ran = run("plan", "old.json", "--latency-ms", "1")
    assert ran.code == 0, ran.err
    lines = [line.split() for line in ran.out.splitlines()]
    assert lines[0] == ["tiny:", "2x128", "int8,", "float32", "vectors"]
    first = {line[0]: line[1:5] for line in lines if len(line) > 8}
    assert first["best"] == ["2x128", "int8", "float32", "73.0"]
    assert first["cheaper"][0] == "1x128"
    assert first["better"][0] == "3x128"
    assert first["full"] == ["3x128", "fp32", "float32", "80.0"]
    assert "p95 latency is within its noise (±2%) of the limit" in ran.out
    assert "  demitasse encode --model tiny --cut 2x128 --input texts.txt --output vectors.npy\n" in ran.out
    assert "  dt.load('tiny').cut(2, 128).encode(texts)\n" in ran.out
    elsewhere = run("plan", "old.json", "--latency-ms", "1", "--model", "models/tiny")
    assert "  demitasse encode --model models/tiny --cut 2x128 " in elsewhere.out


def test_a_plan_for_machines(run: Callable[..., Ran], place: Path) -> None:
    narrow = ("--vectors", "int8", "--vectors", "binary", "--precision", "fp32")
    ran = run("plan", "old.json", "--min-quality", "0.9", "--prefer", "vectors", *narrow, "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert found["budget"] == {"quality": 0.9, "prefer": "vectors"}
    assert (found["best"]["cut"], found["best"]["precision"], found["best"]["vectors"]) == ("3x32", "fp32", "binary")
    assert found["share"] == found["best"]["quality"] / found["full"]["quality"]
    assert found["cheaper"] is None or found["cheaper"]["vector_bytes"] < found["best"]["vector_bytes"]
    assert found["better"]["quality"] > found["best"]["quality"]
    assert found["commands"][-1].startswith("demitasse encode --model tiny")


def test_nothing_fits_is_one_sentence_and_exit_1(run: Callable[..., Ran], place: Path) -> None:
    for more in ((), ("--json",), ("--export", "out")):
        ran = run("plan", "old.json", "--latency-ms", "0.1", *more)
        assert ran.code == 1
        assert ran.out == ""
        assert ran.err.startswith(
            "error: nothing measured has p95 latency of at most 0.1 ms; the nearest is 1x128 int8"
        )
        assert ran.err.count("\n") == 1
    assert not (place / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("old.json",), "no budget was given; say what you can afford, such as --latency-ms 5 or --min-quality 97%"),
        (("old.json", "--latency-ms", "0"), "latency_ms must be a number above 0"),
        (("old.json", "--min-quality", "lots"), "--min-quality 'lots' cannot be read; write 97%, 0.97 or points"),
        (
            ("old.json", "--min-quality", "97%", "--prefer", "speed"),
            "prefer is one of quality, latency, vectors, model",
        ),
        (("--model-mb", "9", "--vectors", "int4"), "vectors is ['int4']; give a list of some of float32, float16"),
        (("old.json", "--model-mb", "9", "--precision", "fp16"), "no precision fp16 was measured in this profile"),
        (("old.json", "--model-mb", "9", "--tasks", "sample"), "old.json is measured already"),
        (("nowhere.json", "--model-mb", "9"), "nowhere.json cannot be read as a profile"),
        ((".", "--model-mb", "9"), "is a folder, not a profile; to measure the model in it first, write --model"),
        (("old.json", "--model-mb", "9", "--export", "/proc/x"), "--export /proc/x cannot be written"),
    ],
)
def test_a_plan_that_cannot_be_made(
    run: Callable[..., Ran], place: Path, arguments: tuple[str, ...], said: str
) -> None:
    ran = run("plan", *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_a_plan_of_the_built_in_model_is_exported_at_once(run: Callable[..., Ran], place: Path) -> None:
    assert (
        run("measure", "--layers", "1", "--dims", "64", "--rounds", "2", "--seconds", "1", "--json", "p.json").code == 0
    )
    ran = run("plan", "p.json", "--vector-bytes", "64", "--vectors", "int8", "--export", "small")
    assert ran.code == 0, ran.err
    assert "small: Encoder(1x64, " in ran.err
    assert "built-in: 1x64 int8, int8 vectors" in ran.out
    np.testing.assert_array_equal(load("small").encode(["a cup"]), load().cut(1, 64).encode(["a cup"]))
    command = next(line for line in ran.out.splitlines() if line.startswith("  demitasse encode")).split()
    assert command[2:6] == ["--model", "small", "--vectors", "int8"]
    (place / "texts.txt").write_text("a cup\na mug\n")
    assert run(*command[1:]).code == 0
    assert np.load("vectors.npy").dtype == np.int8


def test_a_plan_measures_first_where_there_is_no_profile(
    run: Callable[..., Ran], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def measure(encoder: Encoder, tasks: object, *, texts: object, options: MeasureOptions, compare: object) -> Profile:
        asked.append((encoder.full, tasks, texts, options.seconds, compare))
        return made_profile()

    monkeypatch.setattr("demitasse.planning.measure.measure", measure)
    ran = run("plan", "--latency-ms", "1", "--texts", "mine.txt", "--seconds", "7")
    assert ran.code == 0, ran.err
    assert asked == [(Cut(6, 384), None, "mine.txt", 7.0, ())]
    assert ran.out.startswith("built-in: 2x128 int8, float32 vectors\n")
    assert run("plan", "--model", BUILT_IN, "--latency-ms", "1").out.startswith(f"{BUILT_IN}: 2x128 int8")


def test_a_profile_of_another_model_is_not_exported(run: Callable[..., Ran], place: Path) -> None:
    replace(made_profile(), model="built-in").save("p.json")
    ran = run("plan", "p.json", "--model-mb", "5", "--export", "small")
    assert ran.code == 2
    assert "built-in is not the model that was measured" in ran.err
    assert not (place / "small").exists()


def test_a_check_that_passes_is_one_line(run: Callable[..., Ran], place: Path) -> None:
    ran = run("check", "new.json", "--cut", "3x128", "--precision", "int8", "--vectors", "int8", "--max-drop", "3%")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "ok: 1 row of new.json, each with quality at most 3% below the full model\n"
    more = ("--baseline", "old.json", "--max-drop", "2%", "--max-slowdown", "30%", "--vector-bytes", "512")
    ran = run("check", "new.json", *more)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "ok: 48 rows of new.json, each with at most 512 bytes a vector, quality at most 2% below the baseline, "
        "at most 30% slower than the baseline\n"
    )


def test_a_check_that_fails_shows_the_rows_and_exits_1(run: Callable[..., Ran], place: Path) -> None:
    chosen = ("--cut", "2x32", "--cut", "3x128", "--precision", "int8", "--vectors", "float32")
    ran = run("check", "new.json", *chosen, "--max-drop", "1%", "--latency-ms", "1.5", "--baseline", "old.json")
    assert ran.code == 1
    assert ran.err == ""
    lines = [line.split() for line in ran.out.splitlines()]
    failing = [line for line in lines if line[1:2] == ["int8"]]
    assert failing[0][:3] == ["2x32", "int8", "float32"]
    assert " ".join(failing[0][3:]) == "quality 1.40% below the baseline at most 1%"
    assert " ".join(failing[1]) == "3x128 int8 float32 p95 1.950 ms at most 1.5"
    assert len(failing) == 3
    assert lines[-1] == ["failed:", "2", "of", "2", "rows", "of", "new.json"]


def test_other_machines_are_warned_of(run: Callable[..., Ran], place: Path) -> None:
    replace(made_profile(), made={"machine": {"processor": "Another"}}).save("elsewhere.json")
    ran = run("check", "new.json", "--baseline", "elsewhere.json", "--max-slowdown", "50%")
    assert ran.code == 0
    assert ran.err == "warning: the two profiles are from different machines, so their times differ for that too\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "there is nothing to check; give a limit"),
        (("--cut", "9x9", "--max-drop", "1%"), "no cut 9x9 was measured in this profile; there is 1x32"),
        (("--cut", "small", "--max-drop", "1%"), "cannot read 'small' as a cut"),
        (("--max-drop", "1"), "--max-drop '1' could be a share or percent; write 1% or a share below 1"),
        (("--max-slowdown", "5%"), "give that too, as --baseline old.json"),
        (("--max-drop", "1%", "--baseline", "gone.json"), "gone.json cannot be read as a profile"),
        (("--latency-ms", "-1"), "latency_ms must be a number above 0, not -1.0"),
    ],
)
def test_a_check_that_cannot_be_made_exits_2(
    run: Callable[..., Ran], place: Path, arguments: tuple[str, ...], said: str
) -> None:
    ran = run("check", "new.json", *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1
