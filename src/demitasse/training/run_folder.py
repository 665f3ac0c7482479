"""The folder of a training run: what was asked for, what happened, and where to resume.

run.json          every option, versions, hashes of the data, seed
log.jsonl         a line for every few steps, and for every dev score
checkpoint.pt     weights, optimizers and position in the data at the last save: what --resume continues from
start/            the model before the first step, with exits into the space of its teachers (Aligned)
teachers/         their vectors of this run's texts, if they are not kept elsewhere
stage-1/          the model after the first of two stages, with exits: start and teacher of the second
anchor-*.npy      the tuned model's vectors of this run's texts, which every depth stays close to
teacher-*.npy     another teacher's vectors of them, if there is one
model/            the result: the best on the dev set, or the last where there is none
last/             the last one, if there is a dev set
"""

from __future__ import annotations

import json
import platform
import re
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from demitasse._version import __version__
from demitasse.cut import Cut
from demitasse.errors import FolderError, reason
from demitasse.host.atomic import new_file
from demitasse.host.fields import Fields
from demitasse.host.full_disk import naming_full_disk
from demitasse.host.json_files import read_json
from demitasse.host.leftovers import sweep

RUN, LOG, CHECKPOINT = "run.json", "log.jsonl", "checkpoint.pt"
TUNED, MODEL, LAST = "stage-1", "model", "last"
START, TEACHERS = "start", "teachers"
_OURS = re.compile(
    rf"{LOG}|{CHECKPOINT}|{TUNED}|{START}|{TEACHERS}|{MODEL}|{LAST}|(anchor|teacher)-(texts|vectors)\.npy"
)
LOG_EVERY = 10  # steps to a line of the log
_COMPARED = ("options", "objective", "data", "dev", "base")  # must be the same in a resumed run


class RunFolder:
    """Reads and writes the folder; only one process of several writes."""

    def __init__(self, path: Path, *, writes: bool) -> None:
        self.path, self._writes = path, writes

    def check(self, *, resume: bool, force: bool = False) -> None:
        """Refuse a folder that has no run to resume, another run in it or, unless forced, files of yours."""
        if self._writes:
            sweep(self.path)  # a run that was killed, perhaps before it had a name
        there = (self.path / RUN).is_file()
        if resume:
            if not there:
                raise FolderError(f"{self.path} has no run to resume; start without resume")
            return
        if not self._writes:
            return  # the process that writes checks it
        if there:
            raise FolderError(f"{self.path} already has a run in it; resume it (--resume), or choose a new folder")
        names = sorted(path.name for path in self.path.iterdir()) if self.path.is_dir() else []
        if names and not force:
            named = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
            raise FolderError(
                f"{self.path} is not empty ({named}); choose a new folder, or use force (--force), which keeps these"
            )
        taken = [name for name in names if _OURS.fullmatch(name)]
        if taken:
            raise FolderError(
                f"{self.path} has a {taken[0]}, which training would write too; move it, or choose a new folder"
            )

    def begin(self, description: Mapping[str, Any], *, resume: bool, force: bool = False) -> None:
        """Describe the run in run.json; refuse a folder that has another run in it."""
        self.check(resume=resume, force=force)
        described = {**json.loads(json.dumps(dict(description))), "versions": _versions()}
        if resume:
            path = self.path / RUN
            _same(self.path, Fields(read_json(path), path, "start again in a new folder").all(), described)
        elif self._writes:
            with new_file(self.path / RUN) as file:
                file.write((json.dumps(described, indent=2, ensure_ascii=False) + "\n").encode())

    def log(self, entry: Mapping[str, Any]) -> None:
        """Add a line to the log."""
        if self._writes:
            path = self.path / LOG
            with naming_full_disk(path), path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")

    def save(self, state: Mapping[str, Any]) -> None:
        """Replace the checkpoint."""
        if self._writes:
            with new_file(self.path / CHECKPOINT) as file:
                torch.save(dict(state), file)

    def saved(self) -> dict[str, Any] | None:
        """The checkpoint; `None` for a run that ended before its first one, which starts over."""
        if not (self.path / CHECKPOINT).is_file():
            self._forget_after(0)
            return None
        try:
            # torch reads numbers without comparing the checksum it wrote beside them.
            with zipfile.ZipFile(self.path / CHECKPOINT) as parts:
                damaged = parts.testzip()
            if damaged is not None:
                raise ValueError(f"{damaged} is damaged")
            state: dict[str, Any] = torch.load(self.path / CHECKPOINT, map_location="cpu", weights_only=True)
            total = int(state["total"])
        except Exception as problem:
            raise FolderError(
                f"{self.path / CHECKPOINT} cannot be read ({reason(problem)}); start again in a new folder"
            ) from problem
        self._forget_after(total)
        return state

    def _forget_after(self, steps: int) -> None:
        """Remove the lines of the log about steps that will be repeated."""
        log = self.path / LOG
        if self._writes and log.is_file():
            text = log.read_bytes().decode("utf-8", "replace")
            lines = [line for line in text.splitlines() if _step_of(line) <= steps]
            with new_file(log) as file:
                file.write("".join(line + "\n" for line in lines).encode())


def plain(value: Any) -> Any:
    """`value` as plain JSON values; a dataclass starts with its name."""
    if isinstance(value, Cut):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {"name": type(value).__name__, **{part.name: plain(getattr(value, part.name)) for part in fields(value)}}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _step_of(line: str) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):  # half a line, or a damaged one
        return 1 << 60


def _same(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for part in _COMPARED:
        if before.get(part) != now.get(part):
            difference = _difference(before.get(part), now.get(part))
            raise FolderError(
                f"the run in {path} was started with different {part} ({difference}); resume with the same, or start "
                "in a new folder"
            )


def _difference(before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        named = ", ".join(f"{key!s:.40}: {before.get(key)!a:.80} before, {now.get(key)!a:.80} now" for key in keys)
        return named if len(named) <= 300 else f"{named[:300]}…"
    return f"{before!a:.80} before, {now!a:.80} now"


def _versions() -> dict[str, str]:
    packages = ("torch", "transformers", "accelerate", "numpy", "tokenizers")
    return {"demitasse": __version__, "python": platform.python_version(), **{name: version(name) for name in packages}}


class LossLog:
    """The loss and the speed of a stage, averaged over a few steps: lines of the log, and a note for the bar."""

    def __init__(self, folder: RunFolder, earlier: int, track: Callable[[dict[str, float], int], None]) -> None:
        self._folder, self._earlier, self._track = folder, earlier, track
        self._losses: list[float] = []
        self._texts = self._step = 0
        self._begun = time.monotonic()
        self.note = ""

    def add(self, step: int, texts: int, loss: float) -> None:
        """Count a step; every few of them make a line."""
        self._losses.append(loss)
        self._texts += texts
        self._step = self._earlier + step + 1
        if len(self._losses) >= LOG_EVERY or step == 0:
            self.write()

    def write(self) -> None:
        """Write what was counted since the last line."""
        if not self._losses:
            return
        mean, speed = sum(self._losses) / len(self._losses), self._texts / (time.monotonic() - self._begun + 1e-9)
        self._folder.log({"step": self._step, "loss": round(mean, 6), "texts_per_second": round(speed)})
        self._track({"loss": mean, "texts_per_second": speed}, self._step)
        self.note = f"loss {mean:.4f}, {speed:,.0f} texts/s"
        self._losses, self._texts, self._begun = [], 0, time.monotonic()
