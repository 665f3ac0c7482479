"""`demitasse check`: a gate for pipelines, which fails where a profile breaks a limit or fell behind an earlier one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import demitasse
from demitasse.cli.options import (
    BytesOption,
    LatencyOption,
    PrecisionOption,
    QualityOption,
    SizeOption,
    SpeedOption,
    VectorsOption,
    least_quality,
    share,
)
from demitasse.cut import Cut
from demitasse.planning.budget import Budget


def check(  # noqa: PLR0913 - options of a command, each named when used
    profile: Annotated[Path, typer.Argument(help="What demitasse measure --json wrote.")],
    baseline: Annotated[Path | None, typer.Option(help="An earlier profile to compare with, row by row.")] = None,
    cut: Annotated[
        list[str] | None, typer.Option("--cut", "-c", help="Only rows of this cut, such as 3x128; again for more.")
    ] = None,
    precision: PrecisionOption = None,
    vectors: VectorsOption = None,
    max_drop: Annotated[
        str | None, typer.Option(help="Most quality to lose, such as 1%: of the baseline's, or of the full model's.")
    ] = None,
    max_slowdown: Annotated[
        str | None, typer.Option(help="Most time to lose to the baseline, such as 10%, beyond the noise of both.")
    ] = None,
    latency_ms: LatencyOption = None,
    texts_per_second: SpeedOption = None,
    vector_bytes: BytesOption = None,
    model_mb: SizeOption = None,
    min_quality: QualityOption = None,
) -> None:
    """Check the rows of a profile against limits; exit 1 with those that fail, 2 if it cannot be checked."""
    from demitasse.planning.gate import Gate

    limits = Budget(
        latency_ms=latency_ms,
        texts_per_second=texts_per_second,
        vector_bytes=vector_bytes,
        model_mb=model_mb,
        quality=least_quality(min_quality),
    )
    gate = Gate(
        limits,
        share(max_drop, "--max-drop"),
        share(max_slowdown, "--max-slowdown"),
        None if baseline is None else demitasse.read_profile(baseline),
    )
    measured = demitasse.read_profile(profile)
    rows = measured.select([Cut.parse(one) for one in cut or ()], precision or (), vectors or ())
    failures = gate.failures(measured, rows)
    if gate.elsewhere(measured):
        typer.echo(
            "warning: the two profiles are from different machines, so their times differ for that too", err=True
        )
    counted = f"{len(rows)} row{'s' * (len(rows) != 1)}"
    if not failures:
        typer.echo(f"ok: {counted} of {profile}, each with {gate}")
        return
    from rich.console import Console

    from demitasse.display.profile_table import failures_table, print_table

    failed = len({id(failure.row) for failure in failures})
    print_table(failures_table(failures), Console())
    typer.echo(f"failed: {failed} of {counted} of {profile}")
    raise typer.Exit(1)
