"""`demitasse search`: the texts of an index that are nearest to a query."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from demitasse.cli.indexes import FolderArgument, IndexModelOption, open_index
from demitasse.cli.options import REPEATABLE, DeviceOption, one_of
from demitasse.errors import DataError

if TYPE_CHECKING:
    from demitasse.search.hits import Hit
    from demitasse.search.queries import Queries

_CONDITION = re.compile(r"\s*([\w.-]+)\s*(=|>=|<=|>|<)\s*(.*?)\s*", re.DOTALL)
_RANGES = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


def search(  # noqa: PLR0913 - options of a command, each named when used
    folder: FolderArgument,
    query: Annotated[list[str] | None, typer.Argument(help="Queries.")] = None,
    queries: Annotated[
        Path | None,
        typer.Option(help="File of queries (lines, or a column text), or a BEIR folder, whose judgements are scored."),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="How many texts to show for each query.")] = 10,
    layers: Annotated[
        int | None, typer.Option(help="Layers that encode queries; default: as many as the texts.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help=f"Filter on metadata, such as lang=en, 'year>=2020' or JSON; {REPEATABLE}, all must hold."),
    ] = None,
    rerank: Annotated[int, typer.Option(help="Encode this many of the best texts again with all layers.")] = 0,
    coarse: Annotated[
        str | None,
        typer.Option(
            help="First pass: bits, dims, graph or none; default: as measured.",
            autocompletion=one_of("bits", "dims", "graph", "none"),
        ),
    ] = None,
    shortlist: Annotated[
        int | None, typer.Option(help="Texts that the first pass keeps; default: as measured.")
    ] = None,
    recall: Annotated[
        float | None, typer.Option(help="Share of the 10 nearest that is to be found, as measured; default: 0.99.")
    ] = None,
    model: IndexModelOption = None,
    device: DeviceOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Search an index by meaning."""
    from demitasse.search.scan import Scan

    asked = _asked(query, queries)
    condition = parse_where(where)
    scan = Scan(coarse, shortlist=shortlist) if recall is None else Scan(coarse, recall, shortlist)
    index = open_index(folder, model, device)
    texts = list(asked.texts)
    began = time.perf_counter()
    found = index.search(texts, max(k, asked.least), where=condition, layers=layers, rerank=rerank, scan=scan)
    seconds = time.perf_counter() - began
    scores = asked.scores([[hit.id for hit in hits] for hits in found])
    shown = [hits[:k] for hits in found]
    if as_json:
        typer.echo(json.dumps(_plain(asked, shown, scores), indent=1, ensure_ascii=False))
        return
    _show(asked, shown, scores, seconds, one=len(query or ()) == 1 and queries is None)


def parse_where(given: list[str] | None) -> dict[str, Any] | None:
    """The filter that --where says; all of several must hold.

    >>> parse_where(["lang=en", "year>=2020"])
    {'and': [{'lang': 'en'}, {'year': {'gte': 2020}}]}
    """
    if not given:
        return None
    parts = [_condition(text) for text in given]
    return parts[0] if len(parts) == 1 else {"and": parts}


def _condition(text: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise DataError(f'--where {text!r:.80} is not JSON; write lang=en, \'year>=2020\' or {{"lang": "en"}}')
        return parsed
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise DataError(f'--where {text!r:.80} cannot be parsed; write lang=en, \'year>=2020\' or {{"lang": "en"}}')
    field, sign, written = match.groups()
    value = _value(written)
    if sign != "=":
        return {field: {_RANGES[sign]: value}}
    # A column of a .csv file holds "2020", one of a .jsonl file perhaps 2020.
    return {field: value if isinstance(value, str) else [value, written]}


def _value(written: str) -> str | float | bool:
    try:
        value = json.loads(written)
    except (ValueError, RecursionError):
        return written
    return value if isinstance(value, (str, int, float)) else written


def _asked(query: list[str] | None, source: Path | None) -> Queries:
    from demitasse.search.queries import Queries, read_queries

    if query and source is not None:
        raise DataError("queries were given both as arguments and by --queries; use one of them")
    if query:
        return Queries(tuple(query))
    if source is None and sys.stdin.isatty():
        raise DataError("there is no query; give one as an argument, or use --queries FILE")
    return read_queries(Path("-") if source is None else source)


def _plain(asked: Queries, found: list[list[Hit]], scores: dict[str, float]) -> dict[str, Any]:
    ids = asked.ids or [None] * len(asked.texts)
    results = [
        {**({} if id_ is None else {"id": id_}), "query": text, "hits": [hit.as_plain() for hit in hits]}
        for id_, text, hits in zip(ids, asked.texts, found, strict=True)
    ]
    return {**({"scores": scores} if scores else {}), "results": results}


def _show(asked: Queries, found: list[list[Hit]], scores: dict[str, float], seconds: float, *, one: bool) -> None:
    from rich.console import Console

    from demitasse.display.hit_table import hit_table

    console = Console()
    if scores:
        said = ", ".join(f"{name} {value:.2f}" for name, value in scores.items())
        each = 1000 * seconds / len(asked.texts)
        console.print(f"{said}  ({len(asked.texts)} queries, {each:.1f} ms each)", highlight=False)
        return
    for text, hits in zip(asked.texts, found, strict=True):
        if not one:
            console.print(text, style="bold", highlight=False, markup=False)
        console.print(hit_table(hits) if hits else "nothing found")
