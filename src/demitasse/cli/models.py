"""The models that commands work on: loaded by name, at the requested cuts, and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import demitasse
from demitasse.cli.outputs import warnings_on_one_line
from demitasse.cut import Cut, grid, usual_dims
from demitasse.errors import DataError, MissingExtra
from demitasse.extras import EXPORT, need

if TYPE_CHECKING:
    from demitasse.encoding.encoder import Encoder
    from demitasse.planning.measure import MeasureOptions
    from demitasse.planning.profile import Profile


def load_model(
    model: str | None,
    cut: str | None,
    device: str | None,
    max_seq_length: int | None = None,
    threads: int | None = None,
) -> Encoder:
    """The model, at `cut` if one is given."""
    wanted = None if cut is None else Cut.parse(cut)  # first, so that a misspelt cut is reported at once
    encoder = demitasse.load(model, device=device, max_seq_length=max_seq_length, threads=threads)
    return encoder if wanted is None else encoder.cut(*wanted)


def requested_cuts(full: Cut, layers: list[int] | None, dims: list[int] | None, *, first: bool) -> list[Cut]:
    """The requested cuts of one model: of the `first` all must exist; another model is measured at those it has."""
    depths = layers or range(full.layers + 1)
    widths = dims or usual_dims(full.dims)
    if first:  # checking the extremes avoids building a grid that is far too large
        Cut(max(depths), min(widths)).within(full)
        Cut(min(depths), max(widths)).within(full)
    existing = grid(
        [depth for depth in depths if depth <= full.layers], [width for width in widths if width <= full.dims]
    )
    return existing or [full]


@dataclass(frozen=True)
class MeasureSource:
    """What `measure` and `plan` measure: a model, and where its quality comes from."""

    model: str | None = None
    tasks: Sequence[str] | None = None
    data: Path | None = None
    texts: str | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        if self.tasks and self.texts:
            raise DataError("--tasks and --texts were both given; quality is measured on one of them, so choose")
        if self.data is not None and not self.tasks:
            raise DataError("--data was given without --tasks; name the tasks to look for in that folder")

    def load(self) -> Encoder:
        """The model, on its device."""
        try:
            return demitasse.load(self.model, device=self.device)
        except MissingExtra:
            need(f"measuring {self.model}", EXPORT)  # it is measured as blocks, which takes more than loading it
            raise

    def measure(self, encoder: Encoder, options: MeasureOptions, compare: Sequence[str] = ()) -> Profile:
        """Its profile, under the name that was typed, so that printed commands can be run as they are."""
        from demitasse.evaluation.task_files import read_tasks
        from demitasse.planning.measure import BUILT_IN_NAME

        tasks = read_tasks(self.tasks, self.data) if self.tasks else None
        with warnings_on_one_line():
            profile = demitasse.measure(encoder, tasks, texts=self.texts, options=options, compare=compare)
        return replace(profile, model=self.model or BUILT_IN_NAME)
