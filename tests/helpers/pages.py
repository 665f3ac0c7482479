"""README and the pages of docs/: their code, run as it stands with a tiny model in place of the one from the hub."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
import zoo
from paths import ROOT

import demitasse as dt
from demitasse.cli.app import app, main

HUB_NAME = "sentence-transformers/all-MiniLM-L6-v2"
TEACHER = "nomic-ai/nomic-embed-text-v1.5"
PROFILE = "research/results/profile-built-in.json"  # of the repository, so that a plan from it holds on any machine
_CODE = re.compile(r"(<!-- not run: .*? -->\n)?```(\w*)\n(.*?)```", flags=re.DOTALL)


def read(page: str) -> str:
    """A page by its path from the root of the repository."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(text: str, *languages: str) -> list[tuple[str, str]]:
    """The language and code of each block in one of `languages`, less those marked `<!-- not run: why -->`."""
    return [
        (language, code) for skipped, language, code in _CODE.findall(text) if language in languages and not skipped
    ]


def commands(text: str) -> list[list[str]]:
    """The words of every `demitasse …` line."""
    lines = [line for _, code in blocks(text, "bash") for line in code.replace("\\\n", " ").splitlines()]
    return [shlex.split(line) for line in lines if line.startswith("demitasse ")]


def options(command: str) -> set[str]:
    """The options that a command has."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    return {name for one in group.commands[command].params for name in one.opts if name[:2] == "--"} - {"--help"}


def first_column(text: str, after: str) -> set[str]:
    """The names in code font in the first column of the first table after the words `after`."""
    rows = text.split(after, 1)[1].split("|---|---|\n", 1)[1].split("\n\n")[0].splitlines()
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def prepare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to `folder`, with the files that pages speak of, and make the long parts of fitting and measuring short."""
    monkeypatch.chdir(folder)
    (folder / "sentences.txt").write_text("\n".join(zoo.sentences(300)))
    (folder / "texts.txt").write_text("\n".join(zoo.sentences(60)))
    pairs = zip(zoo.sentences(200, seed=1), zoo.sentences(200, seed=2), strict=True)
    _write_lines(folder / "pairs.jsonl", ({"anchor": a, "positive": b} for a, b in pairs))
    scored = zip(zoo.sentences(40, seed=3), zoo.sentences(40, seed=4), range(40), strict=True)
    _write_lines(folder / "mine.jsonl", ({"a": a, "b": b, "score": number % 6} for a, b, number in scored))
    articles = [{"id": number, "title": f"no. {number}", "body": text} for number, text in enumerate(zoo.sentences(50))]
    _write_lines(folder / "articles.jsonl", iter(articles))
    pq.write_table(pa.Table.from_pylist(articles), folder / "articles.parquet")
    documents = [
        {"id": f"d{number}", "text": text, "lang": "en", "year": 2000 + number}
        for number, text in enumerate(zoo.sentences(40))
    ]
    _write_lines(folder / "docs.jsonl", iter(documents))
    (folder / "beir").mkdir()
    _write_lines(folder / "beir" / "corpus.jsonl", ({"_id": one["id"], "text": one["text"]} for one in documents))
    _write_lines(folder / "beir" / "queries.jsonl", ({"_id": "q1", "text": text} for text in zoo.sentences(1)))
    (folder / "beir" / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td0\t1\n")
    (folder / PROFILE).parent.mkdir(parents=True)
    shutil.copy(ROOT / PROFILE, folder / PROFILE)
    monkeypatch.setattr("demitasse.training.refine_exits.ORDER_STEPS", 3)
    monkeypatch.setattr("demitasse.training.refine_exits.REFINE_STEPS", 3)
    measure = dt.measure

    def measure_briefly(*arguments: Any, **named: Any) -> dt.Profile:
        named["options"] = replace(named.get("options") or dt.MeasureOptions(), rounds=2, seconds=1)
        return measure(*arguments, **named)

    monkeypatch.setattr("demitasse.planning.measure.measure", measure_briefly)


def _write_lines(path: Path, lines: Iterator[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def run_page(text: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run all Python and every `demitasse …` line, in the order of the page; returns what the Python defined."""
    names: dict[str, Any] = {}
    handler = signal.getsignal(signal.SIGTERM)
    for language, code in blocks(text.replace(HUB_NAME, str(model)).replace(TEACHER, str(model)), "python", "bash"):
        if language == "python":
            exec(compile(code, "<page>", "exec", dont_inherit=True), names)  # without this file's future annotations
            continue
        for words in commands(f"```bash\n{code}```"):
            monkeypatch.setattr(sys, "argv", words)
            with pytest.raises(SystemExit) as ended:
                main()
            assert ended.value.code == 0, shlex.join(words)
    signal.signal(signal.SIGTERM, handler)
    return names
