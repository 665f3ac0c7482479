"""Commands that write, each with what it reads, what it replaces, and how to tell a complete result."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import zoo
from trees import Tree, tree

import demitasse as dt
from demitasse import Encoder
from demitasse.cli.app import main
from demitasse.host.bundled import BUILT_IN

_TRAIN = "train in/pairs.jsonl --base in/tiny --out out/run --batch 8 --steps 3 --save-every 1 -O elastic:tune=0.3"
_ALIGN = _TRAIN.replace("elastic:tune=0.3", "aligned:teachers=in/tiny,order=false")
_WEB = "export BUILT-IN --format web --out out/m --cut"
_EXPORT = "export in/tiny --sentences in/texts.txt --out out/m --format"
_OLDER = "cut in/tiny 1x8 --out out/m"
_INDEX = "index build in/docs.jsonl --out out/index --cut 0x32"
_OTHER_INDEX = "index build in/more.jsonl --out out/index --cut 0x32"
_DELETE = "index delete out/index --input in/few.txt"
_UNTIDY = f"{_INDEX} && index add out/index in/more.jsonl && {_DELETE}"
_EMBED = "embed in/docs.jsonl in/bad.jsonl --out out/corpus --cut 0x32 --shard-rows 15 --vectors int8"
_MEASURE = "--json out/p.json --seconds 0.01 --rounds 2 --layers 1 --dims 16 --texts in/few.txt"


@dataclass
class Ahead:
    """What takes a command seconds and writes nothing: done once, by the process that forks."""

    module: str
    name: str
    make: Callable[[Encoder], object]
    made: object = None

    def do(self, encoder: Encoder) -> None:
        if self.made is None:
            self.made = self.make(encoder)

    def use(self) -> None:
        """Have this process, a fork, use what was made."""
        setattr(importlib.import_module(self.module), self.name, lambda *arguments, **options: self.made)


def _trace_blocks(encoder: Encoder) -> object:
    from demitasse.exporting.graphs import block_graphs

    return list(block_graphs(encoder))


def _trace_whole(encoder: Encoder) -> object:
    from demitasse.exporting.graphs import whole_graph

    return whole_graph(encoder)


def _fit(encoder: Encoder) -> object:
    return dt.fit_exits(encoder, zoo.sentences(300, seed=5))


_BLOCKS = Ahead("demitasse.exporting.export", "block_graphs", _trace_blocks)
_WHOLE = Ahead("demitasse.exporting.export", "whole_graph", _trace_whole)
_FITTED = Ahead("demitasse", "fit_exits", _fit)


@dataclass(frozen=True)
class Operation:
    """A command, run in a folder that has `in/`; it writes `target`, below `out/`."""

    name: str
    command: str
    target: str
    older: str = ""  # a command that has written an older target
    reads: Callable[[Path], object] | None = None  # what must be the same of a result, where its bytes are not
    by_default: bool = False  # whether some of its writes are tried in every run of the tests
    begun: str = ""  # the file of a run that can be resumed
    then: str = ""  # the command that a user gives next, where it is another one
    ahead: Ahead | None = None
    shares: int = 1  # in which its many writes are tried at length, so that processes can do so side by side

    def action(self, command: str = "") -> Callable[[], None]:
        """The command, or another one, to be run in a process of its own."""

        def run() -> None:
            if self.ahead is not None:
                self.ahead.use()
            *before, last = (command or self.command).replace("BUILT-IN", str(BUILT_IN)).split(" && ")
            for one in before:
                sys.argv = ["demitasse", *one.split()]
                with contextlib.suppress(SystemExit):  # if it failed, so does the next
                    main()
            sys.argv = ["demitasse", *last.split()]
            main()

        return run

    def again(self, folder: Path) -> Callable[[], None]:
        """What a user does next."""
        resume = self.begun and (folder / self.begun).is_file()
        return self.action(f"{self.command} --resume" if resume else self.then or self.command)

    def result(self, folder: Path) -> Tree:
        """What is at the target, {} if nothing is: the hash of each file, or what `reads` finds in it."""
        found = tree(folder / self.target)
        return {".": str(self.reads(folder / self.target))} if found and self.reads else found


def _profile(path: Path) -> object:
    profile = dt.read_profile(path)
    return [row.variant for row in profile.rows], profile.made["exported"]


def _evaluation(path: Path) -> object:
    return dt.read_evaluation(path).scores


def _found(path: Path) -> object:
    """Everything that an index finds, which must be whole."""
    index = dt.Index.open(path)
    wrong = index.verify()
    assert not wrong, wrong
    (hits,) = index.search_vectors([[1.0] * index.cut.dims], k=999)
    return str(index.cut), sorted((hit.id, hit.text, round(hit.score, 4), hit.metadata["length"]) for hit in hits)


def _compact(path: Path) -> object:
    facts = dt.Index.open(path).info()
    return facts["files"], facts["deleted"], _found(path)


def _embedded(path: Path) -> object:
    """All parts by their bytes, and the reasons for rows that were left out; the manifest has times of inputs."""
    found = tree(path)
    assert found.pop("_corpus.json")
    return sorted(found.items())


OPERATIONS = [
    Operation("save", "cut in/tiny 2x16 --out out/m", "out/m"),
    Operation("save, replacing", "cut in/tiny 2x16 --out out/m", "out/m", _OLDER, by_default=True),
    Operation("save blocks", "cut BUILT-IN 0x32 --out out/m", "out/m"),
    Operation("save blocks, replacing", "cut BUILT-IN 0x32 --out out/m", "out/m", _OLDER),
    Operation("export blocks", f"{_EXPORT} blocks", "out/m", ahead=_BLOCKS),
    Operation("export int8", f"{_EXPORT} blocks-int8", "out/m", _OLDER, ahead=_BLOCKS),
    Operation("export onnx", f"{_EXPORT} onnx", "out/m", ahead=_WHOLE),
    Operation("export web, replacing", f"{_WEB} 0x32", "out/m", f"{_WEB} 0x16", by_default=True),
    Operation("fit", "fit in/texts.txt --base in/tiny --out out/m", "out/m", ahead=_FITTED),
    Operation("train", _TRAIN, "out/run/model", begun="out/run/run.json", shares=8),
    Operation("train with teachers", _ALIGN, "out/run/model", begun="out/run/run.json", shares=8),
    Operation("measure", f"measure in/tiny --precision fp32 {_MEASURE}", "out/p.json", reads=_profile, ahead=_BLOCKS),
    Operation("measure blocks", f"measure BUILT-IN {_MEASURE}", "out/p.json", reads=_profile),
    Operation(
        "eval",
        "eval in/tiny --layers 1 --dims 16 --resamples 10 --cache out/cache --json out/e.json",
        "out/e.json",
        reads=_evaluation,
        by_default=True,
    ),
    Operation("encode npy", "encode -m in/tiny -c 1x8 -i in/texts.txt -o out/v.npy", "out/v.npy"),
    Operation(
        "encode jsonl, replacing",
        "encode -m in/tiny -c 1x8 -i in/few.txt -o out/v.jsonl",
        "out/v.jsonl",
        "encode -m in/tiny -c 1x4 -i in/few.txt -o out/v.jsonl",
        by_default=True,
    ),
    Operation("index build", _INDEX, "out/index", reads=_found, by_default=True, then=f"{_INDEX} --force"),
    Operation("index build, replacing", f"{_INDEX} --force", "out/index", _OTHER_INDEX, reads=_found),
    Operation("index add", "index add out/index in/more.jsonl", "out/index", _INDEX, reads=_found, by_default=True),
    Operation("index delete", _DELETE, "out/index", _INDEX, reads=_found, by_default=True),
    Operation("index compact", "index compact out/index", "out/index", _UNTIDY, reads=_compact, by_default=True),
    Operation("index rebuild", "index rebuild out/index --cut 0x16", "out/index", _INDEX, reads=_found),
    Operation("embed", _EMBED, "out/corpus", reads=_embedded, by_default=True),
    Operation(
        "embed, replacing",
        f"{_EMBED} --deduplicate --force",
        "out/corpus",
        "embed in/more.jsonl --out out/corpus --cut 0x32",
        reads=_embedded,
        by_default=True,
    ),
    Operation("report", "report in/profile.json -o out/r.html", "out/r.html", by_default=True),
]
