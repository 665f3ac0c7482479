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
from demitasse.encoding.vectors import STORED, index_bytes
from demitasse.planning.budget import Budget
from demitasse.planning.gate import Failure
from demitasse.planning.index_cost import MILLION, index_costs
from demitasse.planning.profile import MeasuredCut, Profile

_OTHERS = "other models, full size"
_NUMBERS = ("quality", "of full", "p50 ms", "p95 ms", "texts/s", "MB")


def show_profile(profile: Profile, console: Console, cuts: Collection[Cut] = ()) -> None:
    """Print a profile, or some cuts of it: one line per cut and precision, with the quality of each kind of vectors."""
    full = profile.full
    console.print(f"{profile.model}  {full.cut}, {where(profile)}", style="bold", highlight=False, markup=False)
    kinds = [kind for kind in STORED if any(measured.vectors == kind for measured in profile.rows)]
    best = {(measured.cut, measured.precision) for measured in profile.front() if measured.vectors == kinds[0]}
    for precision in (one for one in PRECISIONS if any(measured.precision == one for measured in profile.rows)):
        table = _table(("cut", *_NUMBERS, *kinds[1:]))
        shown = profile.select(precisions=[precision], vectors=[kinds[0]])
        shown = tuple(measured for measured in shown if not cuts or measured.cut in cuts)
        for layers in sorted({measured.cut.layers for measured in shown}, reverse=True):
            table.add_section()
            of_layers = (measured for measured in shown if measured.cut.layers == layers)
            for measured in sorted(of_layers, key=lambda measured: -measured.cut.dims):
                by_kind = {one.vectors: one for one in profile.select([measured.cut], [precision])}
                others = (f"{by_kind[kind].quality:.1f}" if kind in by_kind else "" for kind in kinds[1:])
                style = "bold" if (measured.cut, precision) in best else ""
                table.add_row(str(measured.cut), *_numbers(profile, measured), *others, style=style)
        console.print(f"\n{precision}", style="bold", highlight=False)
        print_table(table, console)
    if profile.others:
        table = _table((_OTHERS, "cut", "precision", *_NUMBERS), left=3)
        for other in profile.others:
            table.add_row(Text(str(other.name)), str(other.cut), other.precision, *_numbers(profile, other))
        print_table(table, console)
    for line in _notes(profile, kinds):
        console.print(line, style="dim", highlight=False, markup=False)


def options_table(profile: Profile, options: Mapping[str, MeasuredCut | None]) -> Table:
    """A few measured cuts with all their numbers, each after a word that says what it is, such as "best"."""
    table = _table(("", "cut", "precision", "vectors", *_NUMBERS[:2], "p95 ms", "texts/s", "bytes", "MB"), left=4)
    for word, measured in options.items():
        if measured is not None:
            quality, share, _, p95, speed, size = _numbers(profile, measured)
            numbers = (quality, share, p95, speed, f"{measured.vector_bytes:,}", size)
            table.add_row(word, str(measured.cut), measured.precision, measured.vectors, *numbers)
    return table


def failures_table(failures: Sequence[Failure]) -> Table:
    """The measured cuts that failed, what each has and what is allowed."""
    table = _table(("cut", "precision", "vectors", "has", "allowed"), left=5)
    for failure in failures:
        measured = failure.measured
        table.add_row(str(measured.cut), measured.precision, measured.vectors, failure.value, failure.allowed)
    return table


def print_table(table: Table, console: Console) -> None:
    """Print a table, with wider gaps between its columns if there is room."""
    table.padding = (0, 1, 0, 0)
    if console.measure(table, options=console.options.update(max_width=1000)).maximum > console.width:
        table.padding = 0
    console.print(table)


def where(profile: Profile) -> str:
    """The machine and the day of a profile, as far as they are known."""
    known = [profile.machine, str(profile.made.get("date") or "")[:10]]
    return ", ".join(filter(None, known)) or "machine unknown"


def what_quality_is(profile: Profile) -> str:
    """The measure, and the full model's quality with its error."""
    error = f" ± {profile.quality_error:.1f}" if profile.quality_error else ""
    return f"quality: {profile.measure}, x 100; the full model has {profile.full.quality:.1f}{error}"


def near_limit(budget: Budget, measured: MeasuredCut) -> list[str]:
    """Warnings if the same cut, measured again, might exceed a limit on time."""
    timing, warnings = measured.timing, []
    if budget.latency_ms is not None and timing.p95_ms * (1 + timing.noise) > budget.latency_ms:
        warnings.append(f"p95 latency is within its noise (±{timing.noise:.0%}) of the limit: measure again to be sure")
    if budget.texts_per_second is not None and timing.texts_per_second * (1 - timing.noise) < budget.texts_per_second:
        warnings.append(f"texts/s are within their noise (±{timing.noise:.0%}) of the limit: measure again to be sure")
    return warnings


def said_index(profile: Profile, measured: MeasuredCut, documents: int | None, recall: float) -> list[str]:
    """A sentence about the index of so many documents, if any were named."""
    if documents is None:
        return []
    size = documents * index_bytes(measured.cut.dims) / 1e9
    cost = index_costs(profile).get(measured.cut.dims)
    how = (
        "the profile does not say how long a search takes: measure again"
        if cost is None
        else f"about {cost.search_ms(documents, recall):,.1f} ms for a search with a recall of {recall:g}"
    )
    return [f"an index of {documents:,} documents takes {size:,.2f} GB without their texts; {how}"]


def said_ties(tied: Sequence[MeasuredCut], best: MeasuredCut) -> list[str]:
    """A sentence about the depths that are as fast as the best one within the noise, if there are any."""
    if not tied:
        return []
    noise = max(one.timing.noise for one in (best, *tied))
    depths = ", ".join(f"{one.cut.layers} layer{'s' * (one.cut.layers != 1)} {one.precision}" for one in tied)
    return [
        f"as fast within the noise (±{noise:.0%}): {depths}; p50, then fewer layers decided: measure again to be sure"
    ]


def _notes(profile: Profile, kinds: Sequence[str]) -> list[str]:
    noises = sorted(measured.timing.noise for measured in profile.rows)
    noise = f"{noises[len(noises) // 2]:.0%} (at worst {noises[-1]:.0%})"
    lines = [
        what_quality_is(profile),
        f"texts/s in batches of {profile.batch}; p50 and p95 for one text at a time; times within ±{noise}",
    ]
    costs = index_costs(profile)
    if costs:
        each = [f"{cost.gigabytes(MILLION):.2f} GB, {cost.search_ms(MILLION):.1f} ms" for cost in costs.values()]
        listed = "; ".join(f"{dims} dims {words}" for dims, words in zip(costs, each, strict=True))
        lines.append(f"an index of a million texts, and a search of it: {listed}")
    if len(kinds) > 1:
        lines.append(f"{', '.join(kinds[1:])}: the quality with vectors stored this way instead of {kinds[0]}")
    return [*lines, "bold: no other row is at least as good in everything and better in something"]


def _numbers(profile: Profile, measured: MeasuredCut) -> tuple[str, ...]:
    timing = measured.timing
    share = f"{profile.share(measured):.1%}" if profile.full.quality > 0 else ""
    times = f"{timing.p50_ms:.2f}", f"{timing.p95_ms:.2f}", f"{timing.texts_per_second:,.0f}"
    return f"{measured.quality:.1f}", share, *times, f"{measured.model_mb:.1f}"


def _table(headings: Sequence[str], left: int = 1) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, heading in enumerate(headings):
        wraps = heading in (_OTHERS, "has", "allowed")
        justify: Literal["left", "right"] = "left" if number < left else "right"
        table.add_column(heading, justify=justify, no_wrap=not wraps, overflow="fold" if wraps else "ellipsis")
    return table
