from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from demitasse import Cut, FolderError
from demitasse.objectives.compression import Principal
from demitasse.objectives.elastic import Elastic
from demitasse.objectives.pair_losses import InfoNCE
from demitasse.objectives.published import AdaptiveLayer, Espresso, Matryoshka, Starbucks
from demitasse.training.options import TrainOptions
from demitasse.training.run_folder import CHECKPOINT, LOG, RUN, RunFolder, plain

RUN_OF = {"options": {"batch": 8, "seed": 0}, "objective": {"name": "Elastic"}, "data": [{"rows": 9}], "base": {}}


def begun(path: Path) -> RunFolder:
    folder = RunFolder(path / "run", writes=True)
    folder.begin(RUN_OF, resume=False)
    return folder


def lines(folder: RunFolder) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder.path / LOG).read_text().splitlines()]


def refused(folder: RunFolder, description: dict[str, Any], *, resume: bool) -> str:
    with pytest.raises(FolderError) as raised:
        folder.begin(description, resume=resume)
    return str(raised.value).replace(str(folder.path), "RUN")


def test_a_run_is_described(tmp_path: Path) -> None:
    written = json.loads((begun(tmp_path).path / RUN).read_text())
    assert {key: written[key] for key in RUN_OF} == RUN_OF
    assert set(written["versions"]) == {
        *("demitasse", "python", "torch", "transformers", "accelerate", "numpy", "tokenizers")
    }


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    sentence = refused(folder, RUN_OF, resume=False)
    assert sentence == "RUN already has a run in it; resume it (--resume), or choose a new folder"
    (folder.path / RUN).rename(folder.path / "other.json")
    sentence = refused(folder, RUN_OF, resume=False)
    said = "RUN is not empty (other.json); choose a new folder, or use force (--force), which keeps these"
    assert sentence == said
    assert [path.name for path in folder.path.iterdir()] == ["other.json"]


def test_with_force_a_run_begins_beside_files_of_others(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", writes=True)
    (folder.path / ".git").mkdir(parents=True)
    (folder.path / CHECKPOINT).write_text("mine")
    with pytest.raises(FolderError, match=r"has a checkpoint.pt, which training would write too; move it, or choose"):
        folder.begin(RUN_OF, resume=False, force=True)
    (folder.path / CHECKPOINT).rename(folder.path / "mine.pt")
    folder.begin(RUN_OF, resume=False, force=True)
    assert sorted(path.name for path in folder.path.iterdir()) == [".git", "mine.pt", RUN]
    with pytest.raises(FolderError, match="already has a run in it; resume it"):
        folder.begin(RUN_OF, resume=False, force=True)


def test_an_empty_folder_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    begun(tmp_path)


def test_what_a_killed_run_left_is_swept(tmp_path: Path) -> None:
    """Killed before run.json was complete, it was refused as a folder that is not empty."""
    (tmp_path / "run").mkdir()
    half = tmp_path / "run" / ".run.json.0123abcd.part"
    for resume in (False, True):
        half.write_text("{")
        os.utime(half, (0, 0))  # long ago, for platforms without locks
        RunFolder(tmp_path / "run", writes=True).begin(RUN_OF, resume=resume)
        assert [path.name for path in (tmp_path / "run").iterdir()] == [RUN]


def test_resuming_needs_a_run_but_no_checkpoint(tmp_path: Path) -> None:
    sentence = "RUN has no run to resume; start without resume"
    assert refused(RunFolder(tmp_path / "none", writes=True), RUN_OF, resume=True) == sentence
    folder = begun(tmp_path)
    folder.log({"step": 1, "loss": 0.5})
    folder.begin(RUN_OF, resume=True)
    assert folder.saved() is None
    assert (folder.path / LOG).read_text() == ""
    folder.save({"total": 3})
    folder.begin(RUN_OF, resume=True)
    assert folder.saved() == {"total": 3}


@pytest.mark.parametrize(
    ("changed", "part", "difference"),
    [
        ({"options": {"batch": 16, "seed": 0}}, "options", "batch: 8 before, 16 now"),
        ({"options": {"seed": 1}}, "options", "batch: 8 before, None now, seed: 0 before, 1 now"),
        ({"objective": {"name": "Espresso"}}, "objective", "name: 'Elastic' before, 'Espresso' now"),
        ({"data": [{"rows": 10}]}, "data", "[{'rows': 9}] before, [{'rows': 10}] now"),
        ({"base": {"full": "3x32"}}, "base", "full: None before, '3x32' now"),
    ],
)
def test_a_run_resumes_only_with_what_it_began_with(
    tmp_path: Path, changed: dict[str, Any], part: str, difference: str
) -> None:
    folder = begun(tmp_path)
    folder.save({"total": 3})
    sentence = refused(folder, {**RUN_OF, **changed}, resume=True)
    assert f"different {part} ({difference}); resume with the same" in sentence


def test_what_does_not_matter_may_change(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    folder.save({"total": 3})
    before = (folder.path / RUN).read_bytes()
    folder.begin({**RUN_OF, "processes": 2, "options": {"seed": 0, "batch": 8}}, resume=True)
    assert (folder.path / RUN).read_bytes() == before


def test_all_options_and_objectives_survive_json(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", writes=True)
    asked = {
        "options": plain(TrainOptions(prompts=("a", "b"), loss=InfoNCE(0.1))),
        "objective": plain(Starbucks((Cut(3, 128),))),
    }
    folder.begin(asked, resume=False)
    folder.save({"total": 1})
    folder.begin(asked, resume=True)


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    state = {"total": 3, "weights": {"a": torch.arange(3.0)}, "sampler": {"waiting": [[0, 1]]}, "best": float("-inf")}
    folder.save({"total": 1})
    folder.save(state)
    saved = folder.saved()
    torch.testing.assert_close(saved.pop("weights"), state.pop("weights"))
    assert saved == state


def test_log_lines_of_steps_that_will_be_repeated_are_dropped(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    folder.save({"total": 20})
    entries = [{"step": step, "loss": step / 10} for step in (10, 20, 30)]
    for entry in [*entries[:2], {"step": 20, "dev": 50.0}, entries[2], {"step": 30, "dev": 60.0}]:
        folder.log(entry)
    folder.saved()
    assert lines(folder) == [*entries[:2], {"step": 20, "dev": 50.0}]


@pytest.mark.parametrize("half", ['{"step": 1, "lo', "{", "3", '{"loss": 1}'])
def test_half_a_log_line_is_dropped(tmp_path: Path, half: str) -> None:
    folder = begun(tmp_path)
    folder.save({"total": 20})
    folder.log({"step": 10})
    with (folder.path / LOG).open("a") as file:
        file.write(half)
    folder.saved()
    folder.log({"step": 30})
    assert lines(folder) == [{"step": 10}, {"step": 30}]


def whole_checkpoint(folder: RunFolder) -> bytes:
    folder.save({"total": 3, "weights": torch.zeros(1000)})
    return (folder.path / CHECKPOINT).read_bytes()


@pytest.mark.parametrize("kind", ["empty", "half", "rubbish", "another's"])
def test_a_broken_checkpoint_is_one_sentence(tmp_path: Path, kind: str) -> None:
    folder = begun(tmp_path)
    whole = whole_checkpoint(folder)
    broken = {"empty": b"", "half": whole[: len(whole) // 2], "rubbish": b"rubbish"}
    if kind in broken:
        (folder.path / CHECKPOINT).write_bytes(broken[kind])
    else:
        folder.save({"weights": torch.zeros(3)})
    folder.log({"step": 10})
    with pytest.raises(FolderError) as raised:
        folder.saved()
    begin, _, rest = str(raised.value).partition(" cannot be read (")
    why, _, cure = rest.rpartition("); ")
    assert begin == str(folder.path / CHECKPOINT)
    assert 0 < len(why) <= 200
    assert cure == "start again in a new folder"
    assert lines(folder) == [{"step": 10}]  # nothing was forgotten for it


def test_only_one_process_writes(tmp_path: Path) -> None:
    other = RunFolder(tmp_path / "run", writes=False)
    other.begin(RUN_OF, resume=False)
    assert not other.path.exists()
    folder = begun(tmp_path)
    other.begin(RUN_OF, resume=False)  # it comes when the first has written, and is no other run
    other.log({"step": 1})
    other.save({"total": 1})
    assert [path.name for path in other.path.iterdir()] == [RUN]
    folder.save({"total": 1})
    folder.log({"step": 5})
    assert other.saved() == {"total": 1}
    assert lines(folder) == [{"step": 5}]


@dataclass(frozen=True)
class Outer:
    sizes: tuple[Any, ...]
    inner: Any = None


def test_objectives_as_json() -> None:
    assert plain(Cut(3, 128)) == "3x128"
    assert plain(Starbucks((Cut(3, 128), Cut(6, 384)))) == {
        **{"name": "Starbucks", "sizes": ["3x128", "6x384"]},
        **{"kl_weight": 0.3, "detach": False},
    }
    compress = {"name": "Principal", "momentum": 0.9, "temperature": 1.0, "weight": 0.1}
    espresso = {"name": "Espresso", "dims": 64, "compress": compress, "express": True}
    assert plain(Espresso(64, Principal(0.9))) == espresso
    inner = plain(AdaptiveLayer(Matryoshka((8, 16))))["inner"]
    assert inner == {"name": "Matryoshka", "dims": [8, 16], "weights": None, "per_step": -1}
    assert plain(Elastic())["teacher"] is None
    deep = plain(Outer((1, (Cut(0, 1), Outer(())), "x")))
    assert deep == {
        **{"name": "Outer", "inner": None},
        "sizes": [1, ["0x1", {"name": "Outer", "sizes": [], "inner": None}], "x"],
    }
    assert plain(TrainOptions())["loss"] == {"name": "InfoNCE", "temperature": 0.05, "both_ways": False}


def test_a_flipped_bit_in_a_checkpoint_is_found(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    folder.save({"total": 3, "student": {"weight": torch.arange(4096.0)}})
    path = folder.path / CHECKPOINT
    whole = path.read_bytes()
    at = whole.index(torch.arange(4096.0).numpy().tobytes()[4000:4400])
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(FolderError, match=r"checkpoint.pt cannot be read \(.* is damaged\); start again"):
        folder.saved()


@pytest.mark.parametrize("written", ["[]", "7", '"run"', "null"])
def test_a_description_that_is_no_object_is_refused(written: str, tmp_path: Path) -> None:
    folder = begun(tmp_path)
    (folder.path / RUN).write_text(written)
    with pytest.raises(FolderError, match=r"run.json: it must be an object, not .*; start again in a new folder"):
        folder.begin(RUN_OF, resume=True)


def test_damaged_lines_of_a_log_are_left_out(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    good = b'{"step": 1, "loss": 0.5}\n'
    (folder.path / LOG).write_bytes(good + b'{"step": \xff\xfe}\n{"step": Infinity}\n' + b"[" * 100_000 + b"\n")
    folder.save({"total": 3})
    folder.saved()
    assert (folder.path / LOG).read_bytes() == good
