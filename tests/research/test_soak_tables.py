"""The tables of docs/robustness.md, from rows as `make soak` writes them: all of them, some or none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import soak_tables
from soak_results import told


def kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Rows of every table; those of `train` come from two processes, those of fuzzing from two runs."""
    monkeypatch.setenv("DEMITASSE_SOAK_RESULTS", str(path))
    for name, writes, kills in (("save", 51, 20), ("train", 1151, 1000), ("train", 1150, 141)):
        told("crashes", operation=name, writes=writes, kills=kills, **{"full disks": kills, "lost": 0})
    for name, full in (("save", 5), ("train", 7)):
        told("small disks", operation=name, **{"too small": full, "KiB that were enough": 10 * full})
    for file, seed in (("st/config.json", "1"), ("st/config.json", "2"), ("st/modules.json", "1"), ("odd", "1")):
        counts = {"CPU s": 3, "refused": 900, "right": 99, "findings": 1}
        told("fuzz", file=file, seed=seed, mutations=1000, **counts)
    for way in ("exchange", "renames"):
        seen = {"encoded right": 190, "told that it changed": 10}
        told("a model is saved by two processes while it is loaded", way=way, saves=1000, loads=200, **seen)
        absent = {"absent for a moment": 4} if way == "renames" else {}
        told("a folder is replaced by three processes while it is read", way=way, saves=70, whole=900, **absent)
    told("forks beside threads that encode", forks=30, **{"new texts": 9000})
    told("values of a wrong type", calls=1438, functions=30, **{"raw errors": 0})
    told("malformed requests", requests=10_000, **{"200": 1026, "400": 8974}, **{"MB more": 1.5})
    for workers, difference in ((1, "9.0e-08"), (2, "5.4e-07")):
        counts = {"seconds": 60, "requests": 5000, "texts": 80_000, "largest difference": difference}
        told("many clients", workers=workers, clients=32, **counts)
    return path


def test_rows_of_one_thing_are_one_row_and_all_are_summed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kept(tmp_path / "soak.jsonl", monkeypatch)
    assert soak_tables.crashes(path)[2:] == [
        "| save | 51 | 20 | 20 | 0 |",
        "| train | 1,151 | 1,141 | 1,141 | 0 |",
        "| **all** | **1,202** | **1,161** | **1,161** | **0** |",
    ]
    assert soak_tables.small_disks(path)[2:] == ["| save | 5 | 50 |", "| train | 7 | 70 |", "| **all** | **12** | |"]
    assert soak_tables.fuzz(path)[2:] == [
        "| folders of sentence-transformers | 2 | 3,000 | 2,700 | 297 | 3 | 9 |",
        "| odd | 1 | 1,000 | 900 | 99 | 1 | 3 |",
        "| **all** | **3** | **4,000** | **3,600** | **396** | **4** | **12** |",
    ]


def test_the_other_tests_are_a_sentence_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kept(tmp_path / "soak.jsonl", monkeypatch)
    said = soak_tables.others(path)
    tables = {json.loads(line)["table"] for line in path.read_text().splitlines()}
    assert tables == {"crashes", "small disks", "fuzz", *soak_tables.SENTENCES}
    assert len(said) == len(soak_tables.SENTENCES)
    text = "\n".join(said)
    for part in (
        "saved a model 2,000 times while a third loaded it 400 times (with exchange and with renames): 380 times",
        "1,800 times it was whole, 0 times a sentence said that it had changed, 4 times it was absent",
        "forked 30 times while two of its threads encoded 9,000 new texts",
        "30 public functions were called 1,438 times with values of a wrong type: 0 errors",
        "10,000 malformed requests were sent to the server: 1,026 had answers after all, 0 were errors of the server",
        "32 clients at a time sent the server 10,000 requests with 160,000 texts in 120 s",
        "no number of a vector was further than 5.4e-07 from",
    ):
        assert part in text


def test_what_was_not_run_yet_is_left_out(tmp_path: Path) -> None:
    assert [len(table(tmp_path / "nothing.jsonl")) for table in soak_tables.TABLES.values()] == [2, 2, 2, 0]
