from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import RunCommand
from profiles import made_profile


def test_a_check_that_passes_is_one_line(run: RunCommand, profile_folder: Path) -> None:
    ran = run("check", "new.json", "--cut", "3x128", "--precision", "int8", "--vectors", "int8", "--max-drop", "3%")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("ok: 1 row of new.json")
    assert "3%" in ran.out
    more = ("--baseline", "old.json", "--max-drop", "2%", "--max-slowdown", "30%", "--vector-bytes", "512")
    ran = run("check", "new.json", *more)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("ok: 48 rows of new.json")
    assert ran.out.count("\n") == 1
    assert [ran.out.count(limit) for limit in ("512 bytes", "2%", "30%")] == [1, 1, 1]


def test_a_check_that_fails_shows_the_rows_and_exits_1(run: RunCommand, profile_folder: Path) -> None:
    chosen = ("--cut", "2x32", "--cut", "3x128", "--precision", "int8", "--vectors", "float32")
    ran = run("check", "new.json", *chosen, "--max-drop", "1%", "--latency-ms", "1.5", "--baseline", "old.json")
    assert ran.code == 1
    assert ran.err == ""
    lines = [line.split() for line in ran.out.splitlines()]
    failing = [line for line in lines if line[1:2] == ["int8"]]
    assert failing[0][:3] == ["2x32", "int8", "float32"]
    assert {"quality", "1.40%", "1%"} <= {*failing[0][3:]}
    assert failing[1][:3] == ["3x128", "int8", "float32"]
    assert {"p95", "1.950", "1.5"} <= {*failing[1][3:]}
    assert len(failing) == 3
    assert lines[-1] == ["failed:", "2", "of", "2", "rows", "of", "new.json"]


def test_a_baseline_from_another_machine_gives_a_warning(run: RunCommand, profile_folder: Path) -> None:
    replace(made_profile(), made={"machine": {"processor": "Another"}}).save("elsewhere.json")
    ran = run("check", "new.json", "--baseline", "elsewhere.json", "--max-slowdown", "50%")
    assert ran.code == 0
    assert ran.err.startswith("warning: the two profiles are from different machines")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give a limit"),
        (("--cut", "9x9", "--max-drop", "1%"), "cut 9x9"),
        (("--cut", "small", "--max-drop", "1%"), "'small' as a cut"),
        (("--max-drop", "1"), "--max-drop '1'"),
        (("--max-slowdown", "5%"), "--baseline"),
        (("--max-drop", "1%", "--baseline", "gone.json"), "gone.json"),
        (("--latency-ms", "-1"), "latency_ms"),
    ],
)
def test_a_check_that_cannot_be_made_exits_2(
    run: RunCommand, profile_folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    ran = run("check", "new.json", *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1


ODD_PROFILES = {
    "nested": lambda text: "[" * 100_000,
    "nested and closed": lambda text: '{"a":' * 900 + "1" + "}" * 900,
    "a gigantic number": lambda text: text.replace('"quality_error": 1.5', '"quality_error": 1' + "0" * 400, 1),
    "a gigantic batch": lambda text: text.replace('"batch": 32', '"batch": -1' + "0" * 400, 1),
    "an odd cut": lambda text: text.replace('"1x32"', '{"layers": 1}', 1),
    "no noise": lambda text: text.replace('"noise"', '"sound"', 1),
    "a list for a name": lambda text: text.replace('"tiny"', "[]", 1),
    "half": lambda text: text[: len(text) // 2],
}


@pytest.mark.parametrize("name", ODD_PROFILES)
def test_an_odd_profile_is_one_sentence_and_never_a_failed_gate(
    run: RunCommand, profile_folder: Path, name: str
) -> None:
    whole = Path("new.json").read_text()
    Path("odd.json").write_text(ODD_PROFILES[name](whole))
    assert Path("odd.json").read_text() != whole
    for command in (
        ("check", "odd.json", "--max-drop", "99%"),
        ("check", "old.json", "--baseline", "odd.json", "--max-drop", "99%"),
        ("plan", "odd.json", "--latency-ms", "9"),
        ("report", "odd.json"),
    ):
        ran = run(*command)
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith("error: odd.json")
        assert ran.err.count("\n") == 1


def test_names_that_cannot_be_printed_are_escaped(
    run: RunCommand, profile_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(made_profile(), model="tiny-\udcff\ud800").save("odd-\udcff.json")
    for command in (("check", "--max-drop", "99%"), ("plan", "--latency-ms", "9"), ("report",)):
        printed = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="utf-8", write_through=True))
        assert run(*command, "odd-\udcff.json").code == 0
        assert command[0] == "report" or b"\\udcff" in printed.getvalue()
