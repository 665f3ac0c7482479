"""What a corpus costs, as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from demitasse.planning.corpus_cost import CorpusCost

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def cost_table(costs: Sequence[CorpusCost]) -> Table:
    """Costs, one line each."""
    priced = costs[0].euros is not None
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    headings = ("cut", "precision", "vectors", "quality", "texts/s", "hours", "vectors take", "index takes")
    for place, heading in enumerate((*headings, *(["euros"] if priced else []))):
        table.add_column(heading, justify="left" if place < 3 else "right", no_wrap=True)
    for cost in costs:
        row, euros = cost.measured, [] if cost.euros is None else [f"{cost.euros:,.2f}"]
        numbers = (f"{row.quality:.1f}", f"{cost.texts_per_second:,.0f}", _hours(cost.hours))
        sizes = (in_bytes(cost.vector_bytes), in_bytes(cost.index_bytes))
        table.add_row(str(row.cut), row.precision, row.vectors, *numbers, *sizes, *euros)
    return table


def in_bytes(count: int) -> str:
    """A number of bytes for people to read.

    >>> in_bytes(512), in_bytes(128_000_000_000)
    ('512 B', '128 GB')
    """
    size, unit = float(count), 0
    while size >= 1000 and unit + 1 < len(_UNITS):
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {_UNITS[unit]}"


def _hours(hours: float) -> str:
    return f"{hours:,.1f}" if hours >= 10 else f"{hours:.2g}"
