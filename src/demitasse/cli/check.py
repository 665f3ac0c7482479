"""`demitasse check`: fails in CI when a profile breaks a limit or falls behind an earlier one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import demitasse
from demitasse.cli.options import (
    REPEATABLE,
    BytesOption,
    LatencyOption,
    PrecisionOption,
    ProfileArgument,
    QualityOption,
    SizeOption,
    SpeedOption,
    VectorsOption,
    parse_min_quality,
    parse_share,
)
from demitasse.cut import Cut
from demitasse.planning.budget import Budget


def check(  # noqa: PLR0913 - options of a command, each named when used
    profile: ProfileArgument,
    baseline: Annotated[Path | None, typer.Option(help="Earlier profile to compare with, row by row.")] = None,
    cut: Annotated[
        list[str] | None, typer.Option("--cut", "-c", help=f"Only rows of this cut, such as 3x128; {REPEATABLE}.")
    ] = None,
    precision: PrecisionOption = None,
    vectors: VectorsOption = None,
    max_drop: Annotated[
        str | None,
        typer.Option(help="Maximum quality drop, such as 1%: from the baseline or, without one, from the full model."),
    ] = None,
    max_slowdown: Annotated[
        str | None, typer.Option(help="Maximum slowdown from the baseline, such as 10%, beyond the noise of both.")
    ] = None,
    latency_ms: LatencyOption = None,
    texts_per_second: SpeedOption = None,
    vector_bytes: BytesOption = None,
    model_mb: SizeOption = None,
    min_quality: QualityOption = None,
) -> None:
    """Check the rows of a profile against limits; exit 1 and list those that fail, 2 if it cannot be checked."""
    from demitasse.planning.gate import Gate

    limits = Budget(
        latency_ms=latency_ms,
        texts_per_second=texts_per_second,
        vector_bytes=vector_bytes,
        model_mb=model_mb,
        quality=parse_min_quality(min_quality),
    )
    gate = Gate(
        limits,
        parse_share(max_drop, "--max-drop"),
        parse_share(max_slowdown, "--max-slowdown"),
        None if baseline is None else demitasse.read_profile(baseline),
    )
    measured = demitasse.read_profile(profile)
    rows = measured.select([Cut.parse(one) for one in cut or ()], precision or (), vectors or ())
    failures = gate.failures(measured, rows)
    if gate.elsewhere(measured):
        typer.echo(
            "warning: the two profiles are from different machines, which alone makes their times differ", err=True
        )
    counted = f"{len(rows)} row{'s' * (len(rows) != 1)}"
    if not failures:
        typer.echo(f"ok: {counted} of {profile}, each with {gate}")
        return
    from rich.console import Console

    from demitasse.display.profile_table import failures_table, print_table

    failed = len({id(failure.measured) for failure in failures})
    print_table(failures_table(failures), Console())
    typer.echo(f"failed: {failed} of {counted} of {profile}")
    raise typer.Exit(1)
