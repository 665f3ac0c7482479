from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import RunCommand
from profiles import made_profile

from demitasse import Cut, Encoder, MeasureOptions, Profile, load
from demitasse.host.bundled import BUILT_IN


def test_a_plan_says_what_to_use_and_what_it_gives_up(run: RunCommand, profile_folder: Path) -> None:
    ran = run("plan", "old.json", "--latency-ms", "1")
    assert ran.code == 0, ran.err
    lines = [line.split() for line in ran.out.splitlines()]
    assert lines[0] == ["tiny:", "2x128", "int8,", "float32", "vectors"]
    first = {line[0]: line[1:5] for line in lines if len(line) > 8}
    assert first["best"] == ["2x128", "int8", "float32", "73.0"]
    assert first["cheaper"][0] == "1x128"
    assert first["better"][0] == "3x128"
    assert first["full"] == ["3x128", "fp32", "float32", "80.0"]
    assert "p95 latency" in ran.out
    assert "(±2%)" in ran.out
    assert "  demitasse encode --model tiny --cut 2x128 --input texts.txt --output vectors.npy\n" in ran.out
    assert "  dt.load('tiny').cut(2, 128).encode(texts)\n" in ran.out
    elsewhere = run("plan", "old.json", "--latency-ms", "1", "--model", "models/tiny")
    assert "  demitasse encode --model models/tiny --cut 2x128 " in elsewhere.out


def test_a_plan_as_json(run: RunCommand, profile_folder: Path) -> None:
    narrow = ("--vectors", "int8", "--vectors", "binary", "--precision", "fp32")
    ran = run("plan", "old.json", "--min-quality", "0.9", "--prefer", "vectors", *narrow, "--json")
    assert ran.code == 0, ran.err
    plan = json.loads(ran.out)
    assert plan["budget"] == {"quality": 0.9, "prefer": "vectors"}
    assert (plan["best"]["cut"], plan["best"]["precision"], plan["best"]["vectors"]) == ("3x32", "fp32", "binary")
    assert plan["share"] == plan["best"]["quality"] / plan["full"]["quality"]
    assert plan["cheaper"] is None or plan["cheaper"]["vector_bytes"] < plan["best"]["vector_bytes"]
    assert plan["better"]["quality"] > plan["best"]["quality"]
    assert plan["commands"][-1].startswith("demitasse encode --model tiny")


def test_nothing_fits_is_one_sentence_and_exit_1(run: RunCommand, profile_folder: Path) -> None:
    for more in ((), ("--json",), ("--export", "out")):
        ran = run("plan", "old.json", "--latency-ms", "0.1", *more)
        assert ran.code == 1
        assert ran.out == ""
        assert ran.err.startswith("error: ")
        assert "0.1 ms; the nearest is 1x128 int8" in ran.err
        assert ran.err.count("\n") == 1
    assert not (profile_folder / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("old.json",), "no budget was given"),
        (("old.json", "--latency-ms", "0"), "latency_ms"),
        (("old.json", "--min-quality", "lots"), "--min-quality 'lots' cannot be parsed"),
        (
            ("old.json", "--min-quality", "97%", "--prefer", "speed"),
            "quality, latency, vectors, model",
        ),
        (("--model-mb", "9", "--vectors", "int4"), "'int4'"),
        (("old.json", "--model-mb", "9", "--precision", "fp16"), "precision fp16"),
        (("old.json", "--model-mb", "9", "--tasks", "sample"), "leave out --tasks"),
        (("nowhere.json", "--model-mb", "9"), "nowhere.json"),
        ((".", "--model-mb", "9"), "is a folder, not a profile"),
        pytest.param(
            ("old.json", "--model-mb", "9", "--export", "/proc/x"),
            "cannot write /proc/x",
            marks=pytest.mark.posix,
        ),
    ],
)
def test_a_plan_that_cannot_be_made_exits_2(
    run: RunCommand, profile_folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    ran = run("plan", *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1


def test_a_plan_of_the_built_in_model_is_exported_at_once(run: RunCommand, profile_folder: Path) -> None:
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
    (profile_folder / "texts.txt").write_text("a cup\na mug\n")
    assert run(*command[1:]).code == 0
    assert np.load("vectors.npy").dtype == np.int8


def test_a_plan_measures_first_where_there_is_no_profile(
    run: RunCommand, profile_folder: Path, monkeypatch: pytest.MonkeyPatch
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


def test_a_profile_of_another_model_is_not_exported(run: RunCommand, profile_folder: Path) -> None:
    replace(made_profile(), model="built-in").save("p.json")
    ran = run("plan", "p.json", "--model-mb", "5", "--export", "small")
    assert ran.code == 2
    assert "fingerprint" in ran.err
    assert not (profile_folder / "small").exists()


def test_plan_says_which_depths_are_as_fast_within_the_noise(profile_folder: Path, run: RunCommand) -> None:
    quiet = made_profile()
    noisy = [replace(one, timing=replace(one.timing, p95_ms=10 + one.cut.layers / 10, noise=0.2)) for one in quiet.rows]
    replace(quiet, rows=tuple(noisy)).save("busy.json")
    said = "as fast within the noise (±20%): 1 layer fp32, 2 layers fp32, 2 layers int8, 3 layers fp32, 3 layers int8"
    printed = " ".join(run("plan", "busy.json", "--min-quality", "50").out.split())
    assert "tiny: 1x32 int8" in printed
    assert said in printed
    assert "within the noise" not in run("plan", "old.json", "--min-quality", "50").out


def test_what_a_corpus_costs(run: RunCommand, profile_folder: Path) -> None:
    ran = run("plan", "old.json", "--count", "1e9", "--euros-per-hour", "2")
    assert ran.code == 0, ran.err
    assert "1,000,000,000 texts" in ran.out
    assert "euros" in ran.out
    assert "with --sample FILE" in ran.out
    plain = json.loads(run("plan", "old.json", "--count", "1e6", "--min-quality", "80%", "--json").out)
    assert plain["count"] == 1_000_000
    assert {row["vectors"] for row in plain["front"]} == {"int8"}
    for row in plain["front"]:
        assert row["corpus"]["hours"] == pytest.approx(1e6 / row["corpus"]["texts_per_second"] / 3600)
    nothing = run("plan", "old.json", "--count", "1e6", "--latency-ms", "0.0001")
    assert nothing.code == 1
    refused = run("plan", "old.json", "--latency-ms", "1", "--sample", "texts.txt")
    assert refused.code == 2
    assert "say how many texts it has, as --count 1e9" in refused.err


def test_the_texts_of_a_corpus_are_timed(run: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "sample.txt").write_text("\n".join(["a small cup", "a mug of coffee"] * 600))
    rows = made_profile().select([Cut(1, 32), Cut(2, 32)])
    profile = replace(made_profile(), model="built-in", fingerprint=load().fingerprint, rows=rows)
    profile.save(tmp_path / "profile.json")
    given = ("--count", "1e6", "--sample", str(tmp_path / "sample.txt"), "--seconds", "0.1")
    ran = run("plan", str(tmp_path / "profile.json"), *given)
    assert ran.code == 0, ran.err
    assert "sample.txt,hereandnow" in "".join(ran.out.split())  # lines are broken anywhere in a long path
    plain = json.loads(run("plan", str(tmp_path / "profile.json"), *given, "--json").out)
    assert {row["precision"] for row in plain["front"]} == {"int8"}
    assert all(row["corpus"]["texts_per_second"] != row["texts_per_second"] for row in plain["front"])
