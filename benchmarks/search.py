"""Nearest-neighbour search over the same vectors: an index of demitasse beside numpy, faiss, usearch and sqlite-vec.

    pip install faiss-cpu usearch sqlite-vec apsw
    python benchmarks/search.py --texts sentences.txt.gz more.jsonl.gz … --work FOLDER \\
        --json benchmarks/results/search.json

Vectors are those of real sentences by the built-in model at --layers layers; queries are further sentences. Each method
builds what it searches (on all cores; time and peak memory of that process), writes it to a file, and is opened from
there by processes that may use one core or two. Queries are asked one at a time, in turns with exact float32 search in
numpy, so that a slow minute of the machine hits both, with a pause between: "times" is the median over turns of
exact / method. Recall is the share of the 10 nearest by exact float32 search over the same dims. A method that has a
breadth is shown at its default, and at the least breadth with a recall of 0.98 on other queries.

The file is written after each method. The same command goes on where it was stopped: what the file has from the same
machine, versions and options stays, so --minutes, --rows, --dims and --methods can cut a long run into pieces.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from search_methods import METHODS, NEAREST

import demitasse as dt
from demitasse.encoding.vectors import unit_length
from demitasse.host.machine import machine, versions

QUERIES = 400  # held out; the first half chooses a breadth, the second is scored
WANTED = 0.98
PAUSE = 0.2  # seconds in which the threads of BLAS and OpenMP, which wait for more on a core of theirs, fall asleep
SLOW = 0.1  # seconds for one query, above which few are timed in a turn
EXACT = "numpy, exact float32"
PEERS = ("faiss-cpu", "usearch", "sqlite-vec")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--texts", nargs="+", type=Path, help="files of texts, .txt.gz or .jsonl.gz")
    parser.add_argument("--work", type=Path, required=True, help="folder for vectors and indexes; may be used again")
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--dims", type=int, nargs="+", default=[384, 128])
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin nothing after so many")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--child", help=argparse.SUPPRESS)  # what one of the processes is to do
    given = parser.parse_args()
    if given.child:
        child(given.work, json.loads(given.child))
        return
    data = prepared(given)
    facts = {
        **{"machine": machine(), "versions": versions() | {name: version(name) for name in PEERS}},
        **{"layers": given.layers, "rounds": given.rounds},
    }
    done, end = kept(given.json, facts), time.monotonic() + 60 * given.minutes
    for rows in given.rows:
        for dims in given.dims:
            before = {row["method"] for row in done if (row["rows"], row["dims"]) == (rows, dims)}
            names = [name for name in METHODS if name in {EXACT, *given.methods} - before]
            for measured in compared(given, data, rows, dims, names, end) if names else ():
                done += measured
                write(given.json, facts | {"rows": done})
            if before | {*names} == {*METHODS}:
                shutil.rmtree(place_of(given, rows, dims), ignore_errors=True)


def kept(file: Path, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """What the file has already, if it was measured on such a machine with the same versions and options.

    The kernel may be another one: each row is a ratio to exact search in turns with it, on the machine of that minute.
    """
    before = json.loads(file.read_text()) if file.exists() else {}
    same = all(_but_kernel(before.get(name)) == _but_kernel(value) for name, value in facts.items())
    return list(before["rows"]) if same else []


def _but_kernel(fact: Any) -> Any:
    return {name: value for name, value in fact.items() if name != "system"} if isinstance(fact, dict) else fact


def write(file: Path, plain: dict[str, Any]) -> None:
    """All at once, so that it is whole whenever this is stopped."""
    order = list(METHODS)
    rows = sorted(plain["rows"], key=lambda row: (row["rows"], -row["dims"], order.index(row["method"])))
    aside = file.with_name(file.name + ".new")
    aside.write_text(json.dumps(plain | {"rows": rows}, indent=1) + "\n")
    aside.replace(file)


def prepared(given: argparse.Namespace) -> tuple[list[str], np.ndarray]:
    """The texts and their vectors, the queries first; kept in the folder."""
    given.work.mkdir(parents=True, exist_ok=True)
    count = max(given.rows) + QUERIES
    text_file, vector_file = given.work / f"texts-{count}.json", given.work / f"vectors-{count}-{given.layers}.npy"
    if not vector_file.exists():
        texts = list(dict.fromkeys(text for path in given.texts for text in sentences_in(path)))
        chosen = np.random.default_rng(0).permutation(len(texts))[:count]
        if len(chosen) < count:
            raise SystemExit(
                f"{len(texts):,} different sentences in --texts, and {count:,} are needed; give more files"
            )
        texts = [texts[place] for place in chosen]
        text_file.write_text(json.dumps(texts))
        np.save(vector_file, dt.load().cut(layers=given.layers).encode(texts, progress=True))
    return json.loads(text_file.read_text()), np.load(vector_file, mmap_mode="r")


def sentences_in(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            values = json.loads(line) if ".jsonl" in path.name else [line]
            for value in values.values() if isinstance(values, dict) else values:
                for text in value if isinstance(value, list) else [value]:
                    if isinstance(text, str):
                        yield from (part for part in re.split(r"(?<=[.!?])\s+", text.strip()) if len(part) > 20)


def place_of(given: argparse.Namespace, rows: int, dims: int) -> Path:
    return given.work / f"{rows}x{dims}"


def compared(
    given: argparse.Namespace,
    data: tuple[list[str], np.ndarray],
    rows: int,
    dims: int,
    names: list[str],
    end: float,
) -> Iterator[list[dict[str, Any]]]:
    """What each of the methods does over so many vectors of so many dims, until the time `end`."""
    (texts, vectors), place = data, place_of(given, rows, dims)
    if not (place / "texts.json").exists():  # which is written last
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        np.save(place / "base.npy", unit_length(np.array(vectors[QUERIES : QUERIES + rows, :dims])))
        np.save(place / "queries.npy", unit_length(np.array(vectors[:QUERIES, :dims])))
        (place / "texts.json").write_text(json.dumps(texts[QUERIES : QUERIES + rows]))
    size = {"rows": rows, "dims": dims}
    truth = built(place, EXACT, given.layers)
    exact = {cores: Asked(place, EXACT, None, cores) for cores in (1, 2)}
    true = exact[2].found(0, QUERIES)
    try:
        for name in names:
            if name == EXACT:
                results = [truth | size | {"recall": 1.0, "breadth": None} | alone(exact, given.rounds)]
            else:
                check_time(end)
                build = built(place, name, given.layers)
                check_time(end)
                results = [
                    build | size | measured(place, name, breadth, exact, true, given.rounds)
                    for breadth in chosen_breadths(place, name, true)
                ]
                if METHODS[name].folder == "":
                    shutil.rmtree(place / slug(name))
                    (place / slug(name)).with_suffix(".json").unlink()
            print(*map(json.dumps, results), sep="\n", flush=True)
            yield results
    finally:
        for process in exact.values():
            process.close()


def check_time(end: float) -> None:
    if time.monotonic() > end:
        raise SystemExit("the minutes are over; the same command goes on from here")


def built(place: Path, name: str, layers: int) -> dict[str, Any]:
    """Build it in a process of its own, unless a method before has built the same; what that took."""
    folder = place / (METHODS[name].folder or slug(name))
    facts = folder.with_suffix(".json")
    if not facts.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        task = {"do": "build", "method": name, "place": place.name, "folder": folder.name, "layers": layers}
        building = run_child(place.parent, task, cores=2)
        said = building.communicate()[0]
        if building.returncode:
            raise SystemExit(f"{name} could not be built")
        facts.write_text(said)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name != "texts.sqlite")
    return {"method": name, **json.loads(facts.read_text()), "bytes": size}


def chosen_breadths(place: Path, name: str, true: list[list[int]]) -> list[int | None]:
    """The default, and the least breadth that finds enough where the default does not."""
    first, *others = METHODS[name].breadths
    if not others:
        return [first]
    for breadth in (first, *others):
        with Asked(place, name, breadth, 2) as asked:
            if recall(asked.found(0, QUERIES // 2), true[: QUERIES // 2]) >= WANTED:
                return [first] if breadth == first else [first, breadth]
    return [first, *others[-1:]]


def measured(
    place: Path, name: str, breadth: int | None, exact: dict[int, Asked], true: list[list[int]], rounds: int
) -> dict[str, Any]:
    result: dict[str, Any] = {"breadth": breadth}
    for cores, reference in exact.items():
        with Asked(place, name, breadth, cores) as asked:
            if cores == 2:
                result["recall"] = round(recall(asked.found(QUERIES // 2, QUERIES), true[QUERIES // 2 :]), 4)
            count = 25 if asked.seconds(0, 1) < SLOW else 5
            times = [(reference.seconds(turn, 5), asked.seconds(turn, count)) for turn in range(-1, rounds)][1:]
            result["memory_mb"] = asked.memory()
        ratio, each = (float(np.median(values)) for values in ([a / b for a, b in times], [b for _, b in times]))
        result[f"queries_per_second_{cores}"] = round(1 / each, 1)
        result[f"times_exact_{cores}"] = round(ratio, 2)
    return result


def alone(exact: dict[int, Asked], rounds: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for cores, reference in exact.items():
        each = float(np.median([reference.seconds(turn, 5) for turn in range(-1, rounds)][1:]))
        result |= {f"queries_per_second_{cores}": round(1 / each, 1), f"times_exact_{cores}": 1.0}
        result["memory_mb"] = reference.memory()
    return result


class Asked:
    """A process that answers queries with one method."""

    def __init__(self, place: Path, name: str, breadth: int | None, cores: int) -> None:
        folder = METHODS[name].folder or slug(name)
        task = {"do": "answer", "method": name, "place": place.name, "folder": folder, "breadth": breadth}
        self._process = run_child(place.parent, task, cores)
        self._say("ready")

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def found(self, start: int, end: int) -> list[list[int]]:
        return self._say("found", start, end)

    def seconds(self, turn: int, count: int) -> float:
        """Seconds for one query, over some of them."""
        time.sleep(PAUSE)
        return float(self._say("seconds", turn * count % (QUERIES - count), count))

    def memory(self) -> float:
        """Megabytes that opening and searching took."""
        return float(self._say("memory"))

    def close(self) -> None:
        self._process.communicate()

    def _say(self, *words: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def run_child(work: Path, task: dict[str, Any], cores: int) -> subprocess.Popen[str]:
    threads = {name: str(cores) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [sys.executable, __file__, "--work", str(work), "--json", "-", "--child", json.dumps(task)]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **threads},
        preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores]),
    )


def child(work: Path, task: dict[str, Any]) -> None:
    place = work / task["place"]
    folder, method = place / task["folder"], METHODS[task["method"]]
    if task["do"] == "build":
        vectors, texts = np.load(place / "base.npy"), json.loads((place / "texts.json").read_text())
        began = time.perf_counter()
        method.build(vectors, folder, texts, task["layers"])
        seconds = round(time.perf_counter() - began, 1)
        print(json.dumps({"build_seconds": seconds, "build_peak_mb": round(resident("VmHWM"))}))
        return
    queries, before = np.load(place / "queries.npy"), resident()
    answer = method.open(folder, task["breadth"])
    for line in sys.stdin:
        said, *values = json.loads(line)
        result: Any = said
        if said == "found":
            result = [answer(query) for query in queries[values[0] : values[1]]]
        elif said == "seconds":
            start, count = values
            began = time.perf_counter()
            for query in queries[start : start + count]:
                answer(query)
            result = (time.perf_counter() - began) / count
        elif said == "memory":
            result = round(resident() - before, 1)
        print(json.dumps(result), flush=True)


def resident(measure: str = "VmRSS") -> float:
    """Megabytes of this process that are in memory, mapped files included; or were at most, with VmHWM."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(measure))
    return int(line.split()[1]) / 1024


def recall(found: list[list[int]], true: list[list[int]]) -> float:
    return float(np.mean([len({*one} & {*right}) / NEAREST for one, right in zip(found, true, strict=True)]))


def slug(name: str) -> str:
    return name.replace(",", "").replace(" ", "-")


if __name__ == "__main__":
    main()
