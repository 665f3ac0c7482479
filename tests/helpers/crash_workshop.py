"""Runs a command, has it killed or finding the disk full at a write, and checks that nothing is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import zoo
from crash_operations import Operation
from faults import Ended, Fault, import_all, run_watched
from profiles import made_profile
from small_disks import small_disk
from trees import Tree, make_equal, tree

from demitasse import load


@dataclass(frozen=True)
class Known:
    """A command that nothing disturbed."""

    template: Path  # what its folder was before
    inputs: Tree
    before: Tree
    after: Tree
    writes: list[str]


class Workshop:
    """A folder in which commands are disturbed; always the same, since results name the paths they come from."""

    def __init__(self, root: Path) -> None:
        self._root, self.work = root, root / "work"
        self._inputs = root / "inputs"
        _write_inputs(self._inputs)
        self._known: dict[str, Known] = {}

    def undisturbed(self, operation: Operation) -> Known:
        """Run it once, and see what it writes and that a power cut could not tear that."""
        if operation.name not in self._known:
            make_equal(self.work, self._inputs)
            if operation.ahead is not None:
                operation.ahead.do(load(self.work / "in" / "tiny", device="cpu"))
            if operation.older:
                _succeeded(run_watched(operation.action(operation.older), self.work))
            template = self._root / operation.name
            make_equal(template, self.work)
            before = operation.result(self.work)
            ended = _succeeded(run_watched(operation.action(), self.work))
            import_all(ended.modules)
            after = operation.result(self.work)
            assert after not in ({}, before)
            assert not leftovers(self.work)
            assert not list(moved_before_synced(ended.writes))
            self._known[operation.name] = Known(template, tree(self._inputs / "in"), before, after, ended.writes)
        return self._known[operation.name]

    def disturb(self, operation: Operation, fault: Fault) -> None:
        """Run it with `fault`, check what there is then, and run it again."""
        known = self.undisturbed(operation)
        make_equal(self.work, known.template)
        ended = run_watched(operation.action(), self.work, fault)
        last = ended.writes[-1] if ended.writes else "none"
        problem = self._problem(operation, known, ended, fault)
        assert problem is None, f"{operation.name}, {fault.kind} at write {fault.at}, {last}: {problem}\n{ended.err}"

    def on_a_small_disk(self, operation: Operation, room: int) -> bool:
        """Run it where there are `room` KiB left; whether it succeeded, in a folder that is none of the others."""
        known = self.undisturbed(operation)
        make_equal(self.work, known.template)
        with small_disk(self.work, known.template, room):
            ended = run_watched(operation.action(), self.work)
            found, wrong = operation.result(self.work), _wrong_end(ended, operation)
            left = leftovers(self.work)
        where = f"{operation.name} with {room} KiB left"
        assert wrong is None, f"{where}: {wrong}\n{ended.err}"
        assert found == (known.after if ended.code == 0 else known.before), f"{where}: the target is not what it was"
        assert not left, f"{where}: left behind {left}"
        return ended.code == 0

    def _problem(self, operation: Operation, known: Known, ended: Ended, fault: Fault) -> str | None:
        if tree(self.work / "in") != known.inputs:
            return "an input was changed"
        found = operation.result(self.work)
        if found not in (known.before, known.after):
            return f"the target is neither what it was nor complete: {found}"
        wrong = _wrong_end(ended, operation) if fault.kind == "full" else ended.code != -9 and "it was not killed"
        if wrong:
            return wrong
        # Only after the target has taken its place is there something left to sync or remove.
        expected = known.after if ended.code == 0 else known.before
        if fault.kind == "full" and found != expected and not ended.writes[fault.at - 1].startswith("fsync"):
            return f"it ended with {ended.code}, and the target does not fit that"
        if fault.kind == "full" and leftovers(self.work):
            return f"left behind: {leftovers(self.work)}"
        again = run_watched(operation.again(self.work), self.work)
        if again.code != 0:
            return f"the next run fails: {again.err}"
        if operation.result(self.work) != known.after:
            return "the next run gives something else"
        return f"the next run leaves {leftovers(self.work)}" if leftovers(self.work) else None


def _wrong_end(ended: Ended, operation: Operation) -> str | None:
    """What is wrong with how a command ended on a full disk; it may have succeeded, if it needed no more space."""
    if ended.code == 0:
        return None
    lines = [line for line in ended.err.splitlines() if line.startswith("error: ")]
    if ended.code != 2 or len(lines) != 1 or "Traceback" in ended.err:
        return f"exit code {ended.code}, and not one sentence"
    sentence = lines[0]
    names = [Path(operation.target).name, *(f"{folder}/" for folder in ("out", "tmp"))]
    if "No space left on device" not in sentence or "; " not in sentence or not any(name in sentence for name in names):
        return "the sentence does not say which file, that the disk is full, and what to do"
    return None


def leftovers(folder: Path) -> list[str]:
    """Hidden files of ours, and what is in the folder for temporary files."""
    found = [*(folder / "out").rglob(".*"), *(folder / "tmp").iterdir()]
    return sorted(str(path.relative_to(folder)) for path in found)


def moved_before_synced(writes: list[str]) -> Iterator[str]:
    """The renames by which a file appeared under its name before its bytes were on the disk."""
    dirty: set[str] = set()
    for write in writes:
        name, path, *target = write.split(" ")
        if name in ("fsync", "fdatasync"):
            dirty.discard(path)
        elif name.startswith("rename"):
            moved = {old for old in dirty if old == path or old.startswith(f"{path}/")}
            dirty = dirty - moved | {target[0] + old.removeprefix(path) for old in moved}
            if moved and not any(part.startswith(".") for part in target[0].split("/")):
                yield write
        elif not name.startswith(("unlink", "rmdir", "mkdir")):
            dirty.add(path)


def distinct(writes: list[str]) -> list[int]:
    """The numbers of the writes that leave something different behind: of a run of writes to a file, three."""
    numbers, position = [], 0
    for _, run in groupby(writes):
        count = len(list(run))
        numbers += sorted({position + 1, position + min(2, count), position + count})
        position += count
    return numbers


def _succeeded(ended: Ended) -> Ended:
    assert ended.code == 0, ended.err
    return ended


def _write_inputs(folder: Path) -> None:
    zoo.write_folder(folder / "in" / "tiny")
    texts = zoo.sentences(600, seed=5)
    (folder / "in" / "texts.txt").write_text("\n".join(texts[:300]))
    (folder / "in" / "few.txt").write_text("\n".join(texts[:60]))
    pairs = zip(texts[::2], texts[1::2], strict=True)
    rows = [json.dumps({"anchor": left, "positive": right}) for left, right in pairs]
    (folder / "in" / "pairs.jsonl").write_text("\n".join(rows))
    for name, some in (("docs", texts[:40]), ("more", texts[30:50])):
        lines = [json.dumps({"id": text, "text": text, "length": len(text)}) for text in some]
        (folder / "in" / f"{name}.jsonl").write_text("\n".join(lines))
    (folder / "in" / "bad.jsonl").write_text('{"id": "one", "text": "kan lor"}\nnot json\n{"id": "two"}')
    made_profile().save(folder / "in" / "profile.json")
    (folder / "out").mkdir()
    (folder / "tmp").mkdir()
