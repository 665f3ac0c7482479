"""What `demitasse plan --count` shows: what a corpus costs at each cut on the front."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from demitasse.errors import DataError

if TYPE_CHECKING:
    from demitasse.encoding.encoder import Encoder
    from demitasse.planning.profile import MeasuredCut, Profile

_SAMPLED = 100_000  # texts of a sample that are read


@dataclass(frozen=True)
class CorpusPlan:
    """How many texts there are, some of them, and what an hour costs."""

    count: float
    sample: Path | None = None
    euros_per_hour: float | None = None
    seconds: float = 60.0  # to time the sample

    def show(
        self,
        profile: Profile,
        among: Sequence[MeasuredCut],
        encoder: Encoder | None,
        device: str | None,
        *,
        as_json: bool,
    ) -> None:
        """Print the costs at each cut on the front of `among`."""
        from demitasse.planning.corpus_cost import corpus_costs, corpus_front, time_sample

        rates = None
        if self.sample is not None:
            from demitasse.planning.deploy import planned_model

            texts = _texts(self.sample)
            encoder = encoder or planned_model(profile, None, device)
            among = [row for row in among if row.precision == encoder.precision]
            if not among:
                raise DataError(
                    f"a sample is encoded in {encoder.precision}, which no row of the profile has; leave out --sample"
                )
        front = corpus_front(profile, among)
        if self.sample is not None and encoder is not None:
            rates = time_sample(encoder, {row.cut.layers for row in front}, texts, self.seconds)
        costs = corpus_costs(front, self.count, rates, self.euros_per_hour)
        if as_json:
            plain = {"model": profile.model, "count": costs[0].count, "front": [cost.as_plain() for cost in costs]}
            typer.echo(json.dumps(plain, indent=2))
            return
        from rich.console import Console

        from demitasse.display.cost_table import cost_table
        from demitasse.display.profile_table import print_table, what_quality_is, where

        console = Console()
        console.print(f"{profile.model}: {costs[0].count:,} texts", style="bold", highlight=False, markup=False)
        print_table(cost_table(costs), console)
        timed = f"texts/s: of {where(profile)}, in batches of {profile.batch}; time your texts with --sample FILE"
        for line in (what_quality_is(profile), timed if rates is None else f"texts/s: of {self.sample}, here and now"):
            console.print(line, style="dim", highlight=False, markup=False)


def _texts(path: Path) -> list[str]:
    from demitasse.data.text_rows import read_texts

    return [text for text in islice(read_texts(path), _SAMPLED) if text.strip()]
