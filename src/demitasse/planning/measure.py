"""`measure`: what every cut of a model is worth and costs on this machine, as a `Profile`. No torch."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

from demitasse.cut import Cut, grid, usual_dims
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.loading import load
from demitasse.encoding.vectors import STORED, vector_bytes
from demitasse.errors import CutError, DataError
from demitasse.evaluation.tasks import Task
from demitasse.host.machine import machine, versions
from demitasse.host.progress import progress_bar
from demitasse.planning.precisions import variants
from demitasse.planning.profile import PRECISIONS, MeasuredCut, Profile, Timing
from demitasse.planning.quality import Agreed, Qualities, Scored, quality_source
from demitasse.planning.timing import Encode, Work, plan_work, time_in_turns

BUILT_IN_NAME = "built-in"
_Place = tuple[str | None, str, int]  # what is timed: the name of a model to compare with, precision, layers


def measure(
    encoder: Encoder | None = None,
    tasks: Sequence[str | Path | Task] | None = None,
    *,
    texts: Sequence[str] | str | Path | None = None,
    options: MeasureOptions | None = None,
    compare: Sequence[str | Path | Encoder] = (),
) -> Profile:
    """Quality, latency, speed and bytes of `encoder` (without one, the built-in model) at many cuts, on this machine.

    Quality comes from `tasks`, which are what `demitasse.evaluate` takes; or from `texts` without labels, a list or a
    file with one a line, as agreement with the full model; or, without either, from the sample that comes with
    demitasse. The texts that are timed are the same ones. A model on torch on a CPU is measured as the blocks it would
    be exported to. `compare` names further models, which are measured at their full size beside this one.

    >>> profile = measure(load(), options=MeasureOptions(cuts=[Cut(1, 64)], rounds=2, seconds=1))
    >>> [str(row) for row in profile.rows if row.vectors == "binary"]
    ['1x64 int8, binary vectors', '6x384 int8, binary vectors']
    >>> profile.full.cut
    Cut(layers=6, dims=384)
    """
    begun = time.perf_counter()
    options = options or MeasureOptions()
    judge = quality_source(tasks, texts)
    name = BUILT_IN_NAME if encoder is None else None
    encoder = load() if encoder is None else encoder
    if not isinstance(encoder, Encoder):
        raise DataError(f"a {type(encoder).__name__} cannot be measured; give an encoder, such as demitasse.load(…)")
    cuts, others = options.cuts_of(encoder.full), _loaded(compare, encoder, judge)
    with variants(encoder, options.precisions, progress=options.progress) as found:
        for note in found.notes:
            warnings.warn(note, stacklevel=2)
        ours, theirs = _qualities(judge, found.encoders, cuts, others, options)
        work = plan_work(judge.alone, judge.batched, options.batch)
        timings, rounds = _timings(found.encoders, cuts, others, work, options)
        rows = [
            _row(found.encoders[precision], cut, kind, quality, timings[None, precision, cut.layers])
            for (precision, cut, kind), quality in ours.values.items()
        ]
    return Profile(
        model=name or encoder.name,
        fingerprint=encoder.fingerprint,
        measure=judge.measure,
        quality_error=ours.error,
        batch=options.batch,
        rows=tuple(rows),
        others=tuple(
            replace(_row(other, other.full, "float32", theirs[key], timings[_place(key, other, other.full)]), name=key)
            for key, other in others.items()
        ),
        made={
            "machine": machine(),
            "runs_on": encoder.place,
            "versions": versions(),
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "rounds": rounds,
            "single_texts": rounds * len(work.singles),
            "seconds": round(time.perf_counter() - begun, 1),
            "notes": list(found.notes),
        },
    )


def _loaded(compare: Sequence[str | Path | Encoder], encoder: Encoder, judge: Scored | Agreed) -> dict[str, Encoder]:
    """The models to compare with, by name, on a device of the same kind."""
    if isinstance(compare, (str, Path, Encoder)):
        raise DataError(f"compare must be a list, not one {type(compare).__name__}; wrap it: [model]")
    if compare and isinstance(judge, Agreed):
        raise DataError(
            "another model cannot be compared on texts without labels, for it is no worse where it disagrees with this "
            "one; give tasks, or leave compare out"
        )
    device = next((kind for kind in ("cuda", "mps") if kind in encoder.place), "cpu")
    others: dict[str, Encoder] = {}
    for number, given in enumerate(compare):
        if given in compare[:number]:
            raise DataError(f"{given} is to be compared twice; name each model once")
        other = given if isinstance(given, Encoder) else load(given, device=device)
        alike = f"{other.name} {other.full}" if isinstance(given, Encoder) else str(given)
        others[other.name if other.name not in others else alike] = other
    return others


def _qualities(
    judge: Scored | Agreed,
    encoders: Mapping[str, Encoder],
    cuts: Sequence[Cut],
    others: Mapping[str, Encoder],
    options: MeasureOptions,
) -> tuple[Qualities, dict[str, float]]:
    """Of the encoders at every cut and in every kind of vectors, and of the others as they are."""
    count = judge.count * (len(encoders) + len(others))
    with progress_bar("measuring quality", count, show=options.progress) as advance:
        ours = judge.qualities(encoders, cuts, options.kinds, advance)
        theirs = {
            name: judge.qualities({name: other}, [other.full], ["float32"], advance).values[name, other.full, "float32"]
            for name, other in others.items()
        }
    return ours, theirs


def _timings(
    encoders: Mapping[str, Encoder],
    cuts: Sequence[Cut],
    others: Mapping[str, Encoder],
    work: Work,
    options: MeasureOptions,
) -> tuple[dict[_Place, Timing], int]:
    """Of every number of layers at every precision, and of the others; and the rounds that took.

    Each number of layers is timed at its widest cut. What fewer dims save, some rows of one small product, cannot be
    measured beside the layers, so that all its cuts have this time.
    """
    widest = {cut.layers: cut for cut in sorted(cuts)}
    places = {
        _place(None, encoder, cut): _encode_anew(encoder.cut(*cut))
        for encoder in encoders.values()
        for cut in widest.values()
    }
    places |= {_place(name, other, other.full): _encode_anew(other) for name, other in others.items()}
    with progress_bar("timing", options.rounds * len(places), show=options.progress) as advance:
        return time_in_turns(
            places, work, rounds=options.rounds, seconds=options.seconds, clock=time.perf_counter, advance=advance
        )


def _place(name: str | None, encoder: Encoder, cut: Cut) -> _Place:
    return name, encoder.precision, cut.layers


def _encode_anew(encoder: Encoder) -> Callable[[], Encode]:
    """A function that gives the encoder as it is when it has met no text yet: a word met before is read faster."""

    def make() -> Encode:
        fresh: Encoder = replace(cast(Any, encoder), reader=encoder.reader.anew())
        return lambda texts, prompt: fresh.encode(texts, prompt=prompt, progress=False)

    return make


def _row(encoder: Encoder, cut: Cut, kind: str, quality: float, timing: Timing) -> MeasuredCut:
    return MeasuredCut(
        cut,
        encoder.precision,
        kind,
        quality,
        timing,
        model_mb=encoder.model_bytes(cut) / 1e6,
        vector_bytes=vector_bytes(cut.dims, kind),
    )


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """What is measured and for how long; everything has a default.

    - `cuts`: by default every number of layers at the usual dims. The full size is always among them, since the others
      are a share of it.
    - `precisions`: "fp32", "int8" and so on; by default all that can be had of the model.
    - `vectors`: the ways of keeping them; "float32" is always among them.
    - `batch`: texts of a batch, for texts a second.
    - `rounds` of timing, at most; more of them make the times steadier and take longer.
    - `seconds` for all timing. Where that is short, there are fewer rounds, but never fewer than 5.
    - `progress`: whether to show a bar; by default to a person, when it takes a while.

    >>> MeasureOptions(rounds=5, seconds=5).batch
    32
    """

    cuts: Sequence[Cut] | None = None
    precisions: Sequence[str] | None = None
    vectors: Sequence[str] = STORED
    batch: int = 32
    rounds: int = 12
    seconds: float = 60.0
    progress: bool | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("precisions", PRECISIONS), ("vectors", STORED)):
            given = getattr(self, name)
            if isinstance(given, str) or any(one not in allowed for one in given or ()):
                raise DataError(f"{name} is {given!r}; give a list of some of {', '.join(allowed)}")
            if given is not None and not given:
                raise DataError(f"{name} is empty; name at least one of {', '.join(allowed)}, or leave it out")
        for name, least in (("batch", 1), ("rounds", 2)):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise DataError(f"{name} is {number!r}; give a whole number of at least {least}")
        if isinstance(self.seconds, bool) or not isinstance(self.seconds, (int, float)) or not self.seconds > 0:
            raise DataError(f"seconds is {self.seconds!r}; give a number above 0, such as 60")

    def cuts_of(self, full: Cut) -> list[Cut]:
        """The cuts to measure of an encoder of size `full`, smallest first.

        >>> [str(cut) for cut in MeasureOptions(cuts=[Cut(1, 8)]).cuts_of(Cut(3, 32))]
        ['1x8', '3x32']
        """
        if self.cuts is None:
            return grid(range(full.layers + 1), usual_dims(full.dims))
        if not self.cuts or not all(isinstance(cut, Cut) for cut in self.cuts):
            raise CutError(f"cuts is {self.cuts!r}; give at least one, such as [Cut(3, 128)]")
        return sorted({cut.within(full) for cut in self.cuts} | {full})

    @property
    def kinds(self) -> list[str]:
        """The ways of keeping vectors that are measured, finest first."""
        return [kind for kind in STORED if kind == "float32" or kind in self.vectors]
