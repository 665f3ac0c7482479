"""Profiles, plans and failed checks as tables for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from demitasse.cut import Cut
from demitasse.encoding.precision import PRECISIONS
from demitasse.encoding.vectors import STORED
from demitasse.planning.budget import Budget
from demitasse.planning.gate import Failure
from demitasse.planning.profile import MeasuredCut, Profile

_OTHERS = "other models, whole"
_NUMBERS = ("quality", "of full", "p50 ms", "p95 ms", "texts/s", "MB")


def show_profile(profile: Profile, console: Console, cuts: Collection[Cut] = ()) -> None:
    """Print a profile, or some cuts of it: a line a cut and precision, with the quality of each way to keep vectors."""
    full = profile.full
    console.print(f"{profile.model}  {full.cut}, {where(profile)}", style="bold", highlight=False, markup=False)
    kinds = [kind for kind in STORED if any(row.vectors == kind for row in profile.rows)]
    best = {(row.cut, row.precision) for row in profile.front() if row.vectors == kinds[0]}
    for precision in (one for one in PRECISIONS if any(row.precision == one for row in profile.rows)):
        table = _table(("cut", *_NUMBERS, *kinds[1:]))
        rows = [row for row in profile.rows if row.precision == precision and row.vectors == kinds[0]]
        rows = [row for row in rows if not cuts or row.cut in cuts]
        for layers in sorted({row.cut.layers for row in rows}, reverse=True):
            table.add_section()
            for row in sorted((row for row in rows if row.cut.layers == layers), key=lambda row: -row.cut.dims):
                kept = {one.vectors: one for one in profile.select([row.cut], [precision])}
                others = (f"{kept[kind].quality:.1f}" if kind in kept else "" for kind in kinds[1:])
                style = "bold" if (row.cut, precision) in best else ""
                table.add_row(str(row.cut), *_numbers(profile, row), *others, style=style)
        console.print(f"\n{precision}", style="bold", highlight=False)
        print_table(table, console)
    if profile.others:
        table = _table((_OTHERS, "cut", "precision", *_NUMBERS), left=3)
        for row in profile.others:
            table.add_row(Text(str(row.name)), str(row.cut), row.precision, *_numbers(profile, row))
        print_table(table, console)
    for line in _notes(profile, kinds):
        console.print(line, style="dim", highlight=False, markup=False)


def rows_table(profile: Profile, named: Mapping[str, MeasuredCut | None]) -> Table:
    """A few rows with all their numbers, each after a word that says what it is."""
    table = _table(("", "cut", "precision", "vectors", *_NUMBERS[:2], "p95 ms", "texts/s", "bytes", "MB"), left=4)
    for word, row in named.items():
        if row is not None:
            quality, share, _, p95, speed, size = _numbers(profile, row)
            kept = (row.vectors, quality, share, p95, speed, f"{row.vector_bytes:,}", size)
            table.add_row(word, str(row.cut), row.precision, *kept)
    return table


def failures_table(failures: Sequence[Failure]) -> Table:
    """The rows that failed, what each has and what is allowed."""
    table = _table(("cut", "precision", "vectors", "has", "allowed"), left=5)
    for failure in failures:
        row = failure.row
        table.add_row(str(row.cut), row.precision, row.vectors, failure.value, failure.allowed)
    return table


def print_table(table: Table, console: Console) -> None:
    """Print a table, its columns further apart where there is room."""
    table.padding = (0, 1, 0, 0)
    if console.measure(table, options=console.options.update(max_width=1000)).maximum > console.width:
        table.padding = 0
    console.print(table)


def where(profile: Profile) -> str:
    """The machine and the day of a profile, as far as it tells."""
    said = [profile.machine, str(profile.made.get("date") or "")[:10]]
    return ", ".join(filter(None, said)) or "on a machine that is not told"


def what_quality_is(profile: Profile) -> str:
    """The measure and how far it can be trusted."""
    error = f" ± {profile.quality_error:.1f}" if profile.quality_error else ""
    return f"quality: {profile.measure}, x 100; the full model has {profile.full.quality:.1f}{error}"


def near_limit(budget: Budget, row: MeasuredCut) -> list[str]:
    """A warning where another measurement of the same row might break a limit on time."""
    timing, said = row.timing, []
    if budget.latency_ms is not None and timing.p95_ms * (1 + timing.noise) > budget.latency_ms:
        said.append(f"p95 latency is within its noise (±{timing.noise:.0%}) of the limit: measure again to be sure")
    if budget.texts_per_second is not None and timing.texts_per_second * (1 - timing.noise) < budget.texts_per_second:
        said.append(f"texts/s are within their noise (±{timing.noise:.0%}) of the limit: measure again to be sure")
    return said


def _notes(profile: Profile, kinds: Sequence[str]) -> list[str]:
    noises = sorted(row.timing.noise for row in profile.rows)
    noise = f"{noises[len(noises) // 2]:.0%} (at worst {noises[-1]:.0%})"
    lines = [
        what_quality_is(profile),
        f"texts/s in batches of {profile.batch}; p50 and p95 of one text at a time; times within ±{noise}",
    ]
    if len(kinds) > 1:
        lines.append(f"{', '.join(kinds[1:])}: the quality with vectors kept in that way, in place of {kinds[0]}")
    return [*lines, "bold: no other row is as good in everything and better in something"]


def _numbers(profile: Profile, row: MeasuredCut) -> tuple[str, ...]:
    timing = row.timing
    share = f"{profile.share(row):.1%}" if profile.full.quality > 0 else ""
    times = f"{timing.p50_ms:.2f}", f"{timing.p95_ms:.2f}", f"{timing.texts_per_second:,.0f}"
    return f"{row.quality:.1f}", share, *times, f"{row.model_mb:.1f}"


def _table(headings: Sequence[str], left: int = 1) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, heading in enumerate(headings):
        wraps = heading in (_OTHERS, "has", "allowed")
        justify: Literal["left", "right"] = "left" if number < left else "right"
        table.add_column(heading, justify=justify, no_wrap=not wraps, overflow="fold" if wraps else "ellipsis")
    return table
