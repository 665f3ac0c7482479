"""Tasks read from files: scored pairs, BEIR folders, the seven STS sets, and the sample shipped with demitasse."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from demitasse.data.pairs import read_pairs
from demitasse.data.row_readers import BadRowError, records
from demitasse.encoding.text_checks import checked
from demitasse.errors import DataError
from demitasse.evaluation.tasks import PairTask, SearchTask, Task, check_names
from demitasse.host.bundled import SAMPLE, corpus
from demitasse.host.text_lines import read_lines

STS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb-test", "sick-test")  # as SentEval has them
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_JUDGEMENTS = ("qrels.tsv", "qrels/test.tsv")


def read_tasks(given: Sequence[str | Path], data: str | Path | None = None) -> list[Task]:
    """The tasks that `given` names, in their order.

    Each entry is a file of scored pairs (a, b, score, in any format of `read_pairs`; scores that are all 0 or 1 say
    whether two texts match), a BEIR folder (corpus.jsonl, queries.jsonl, qrels.tsv or qrels/test.tsv), a folder with
    the seven STS sets of SentEval, or "sample" for the one shipped with demitasse: a demo, not a benchmark. With
    `data`, an entry may be a name: it is looked up in `data`, `data`/sts and `data`/retrieval first, and "sts" is the
    seven sets there.

    A query's "answer", at the top level or in its metadata, is used if it is a string. Queries without a document of a
    grade above 0 are left out, as in BEIR.

    >>> [(task.name, task.metric) for task in read_tasks(["sample"])]
    [('sample-pairs', 'spearman'), ('sample-search', 'ndcg@10')]
    """
    if isinstance(given, (str, Path)):
        raise DataError(f"tasks must be a list of names and paths, not one alone; write [{str(given)!r}]")
    if not given:
        raise DataError("no task was given; name at least one, such as 'sample'")
    folder = None if data is None else Path(data)
    if folder is not None and not folder.is_dir():
        raise DataError(f"{folder} is not a folder; give the folder with the tasks as data")
    tasks = [task for entry in given for task in _tasks_of(entry, folder)]
    check_names(tasks)
    return tasks


def _tasks_of(entry: str | Path, data: Path | None) -> list[Task]:
    if not isinstance(entry, (str, Path)):
        raise DataError(f"a task was given as {type(entry).__name__}; give a name or a path, such as 'sample'")
    if entry == "sample":
        return [_pair_task(SAMPLE / "pairs.jsonl", "sample-pairs"), _sample_search()]
    path = _task_path(entry, data)
    if path.is_file():
        return [_pair_task(path, _name(path))]
    if any(_file(path, name) for name in STS):
        return [_pair_task(_sts_file(path, name), name, group="sts") for name in STS]
    if _file(path, "corpus"):
        return [_beir_task(path)]
    wanted = "the seven STS sets (sts12, ...) or corpus.jsonl, queries.jsonl and qrels.tsv"
    raise DataError(f"the folder {path} is not a task; give one with {wanted}")


def _task_path(entry: str | Path, data: Path | None) -> Path:
    """The file or folder that `entry` names."""
    if not str(entry):
        raise DataError("a task has an empty name; give a file, a folder, a name in data, or sample")
    folders = [data, data / "sts", data / "retrieval"] if data is not None else []
    if entry == "sts":
        with_sets = [folder for folder in folders if any(_file(folder, name) for name in STS)]
        if with_sets:
            return with_sets[0]
        if data is not None and not (data / "sts").exists():
            raise DataError(f"{data} has none of the sets {', '.join(STS)}; put them there or in its sts folder")
    for path in (*(folder / entry for folder in folders), Path(entry)):
        for candidate in (path, *(path.with_name(path.name + suffix) for suffix in SUFFIXES if path.name)):
            if candidate.exists():
                return candidate
    known = {"sample"} | {_name(path) for folder in folders if folder.is_dir() for path in folder.iterdir()}
    close = difflib.get_close_matches(str(entry), sorted(known), 1)
    meant = f" (did you mean {close[0]!r}?)" if close else ""
    where = "here" if data is None else f"here or in {data}"
    raise DataError(f"there is no task {str(entry)!r} {where}{meant}; give a file, a folder, a name in data, or sample")


def _file(folder: Path, name: str) -> Path | None:
    """The data file called `name` in `folder`, with any suffix."""
    return next((path for suffix in SUFFIXES if (path := folder / f"{name}{suffix}").is_file()), None)


def _sts_file(folder: Path, name: str) -> Path:
    path = _file(folder, name)
    if path is None:
        raise DataError(f"the folder {folder} has no {name}.jsonl; it needs {', '.join(STS)}, or name single files")
    return path


def _name(path: Path) -> str:
    """The name of a file or folder, without the suffix of a data file."""
    suffix = next((suffix for suffix in SUFFIXES if path.name.endswith(suffix)), "")
    return path.absolute().name.removesuffix(suffix)


def _pair_task(path: Path, name: str, group: str | None = None) -> PairTask:
    try:
        (source,) = read_pairs(path).sources
    except DataError as problem:  # its message may offer an option that only read_pairs has
        raise DataError(str(problem).partition(", or pass skip_bad_rows")[0]) from problem
    if source.kind != "scored":
        raise DataError(f"{path} has {source.kind} without scores; a task needs the columns a, b and score")
    examples = [source[index] for index in range(len(source))]
    gold = np.array([example.score for example in examples], dtype=float)
    if not np.ptp(gold):
        raise DataError(f"{path} has the score {gold[0]:g} for every pair; give pairs with different scores")
    left, right = zip(*(example.texts for example in examples), strict=True)
    return PairTask(name, group or name, left, right, gold, binary=bool(np.isin(gold, (0, 1)).all()))


def _beir_task(folder: Path) -> SearchTask:
    documents, queries = beir_rows(folder, "corpus"), beir_rows(folder, "queries")
    numbers = {document: number for number, document in enumerate(documents)}
    judged: dict[str, dict[int, float]] = {}
    for line, query, document, grade in beir_judgements(folder):
        for known, file, wanted in ((queries, "queries", query), (numbers, "corpus", document)):
            if wanted not in known:
                raise DataError(f"{line} names {wanted!r}, which is not in {file}.jsonl; add it or remove the line")
        judged.setdefault(query, {})[numbers[document]] = grade
    asked = [query for query in queries if query in judged]
    if not asked:
        raise DataError(f"{folder} has no judgement with a grade above 0; give at least one")
    name = _name(folder)
    return SearchTask(
        name,
        name,
        tuple(checked(beir_text(row) for row in documents.values())),
        tuple(checked(queries[query]["text"] for query in asked)),
        tuple(judged[query] for query in asked),
        tuple(_answer(queries[query]) for query in asked),
    )


def beir_rows(folder: Path, name: str) -> dict[str, Mapping[str, Any]]:
    """The rows of `corpus` or `queries` of a BEIR folder by their `_id`, each with a `text`."""
    by_id: dict[str, Mapping[str, Any]] = {}
    for line, row in each_beir_row(folder, name):
        if str(row["_id"]) in by_id:
            raise DataError(f"{line} repeats the '_id' {row['_id']!r}; give each row its own")
        by_id[str(row["_id"])] = row
    if not by_id:
        raise DataError(f"{beir_file(folder, name)} has no rows; give a file with at least one")
    return by_id


def each_beir_row(folder: Path, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of `corpus` or `queries` one by one, each with where it is."""
    path = beir_file(folder, name)
    if path is None:
        raise DataError(f"the folder {folder} has no {name}.jsonl; a search task needs corpus.jsonl and queries.jsonl")
    for line, row in records(path, path.name):
        if isinstance(row, BadRowError):
            raise DataError(f"{path} {line}: {row}; fix the row")
        if not isinstance(row, Mapping) or "_id" not in row or not isinstance(row.get("text"), str):
            raise DataError(f"{path} {line} has no '_id' or no 'text' that is a string; give every row both")
        yield f"{path} {line}", row


def beir_file(folder: Path, name: str) -> Path | None:
    """The file `corpus` or `queries` of a folder, with any suffix; None if it has none."""
    return _file(folder, name)


def beir_text(row: Mapping[str, Any]) -> str:
    """What is encoded of a document: its title before its text, as BEIR gives documents to encoders."""
    return f"{row.get('title') or ''} {row['text']}".strip()


def _answer(row: Mapping[str, Any]) -> str | None:
    metadata = row.get("metadata")
    answer = row.get("answer") or (metadata.get("answer") if isinstance(metadata, Mapping) else None)
    return answer if isinstance(answer, str) else None


def beir_judgements(folder: Path) -> Iterator[tuple[str, str, str, float]]:
    """The file and line, the query, the document and the grade of every judgement with a grade above 0."""
    path = next((folder / name for name in _JUDGEMENTS if (folder / name).is_file()), None)
    if path is None:
        raise DataError(f"the folder {folder} has no {' and no '.join(_JUDGEMENTS)}; put the judgements there")
    for number, line in enumerate(read_lines(path), 1):
        try:
            query, document, written = line.split("\t")
            grade = float(written)
        except ValueError:
            grade = math.nan
        if math.isfinite(grade):
            if grade > 0:
                yield f"{path} line {number}", query, document, grade
        elif number > 1 and line.strip():  # the first line may be a header
            wanted = "a query, a document and a grade, with tabs between them"
            raise DataError(f"{path} line {number} is {line!r:.60}; every line must be {wanted}")


def _sample_search() -> SearchTask:
    """Questions over the sentences of `corpus`, each with the sentences that answer it."""
    documents = corpus()
    rows = [row for _, row in records(SAMPLE / "questions.jsonl", "questions.jsonl")]
    return SearchTask(
        "sample-search",
        "sample-search",
        tuple(documents),
        tuple(row["query"] for row in rows),
        tuple({documents.index(sentence): 1.0 for sentence in row["answered_by"]} for row in rows),
        (None,) * len(rows),
    )
