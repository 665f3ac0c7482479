"""`measure`: what every cut of a model scores and costs on this machine, as a `Profile`. No torch."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

from demitasse.arguments import check_fields, choice, instance, several, whole
from demitasse.cut import Cut, cuts_of, grid, usual_dims
from demitasse.encoding.checked_encoder import checked_encoder
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.loading import load
from demitasse.encoding.precision import PRECISIONS
from demitasse.encoding.vectors import STORED, vector_bytes
from demitasse.errors import DataError
from demitasse.evaluation.tasks import Task
from demitasse.host.machine import machine, versions
from demitasse.host.progress import progress_bar
from demitasse.planning.index_cost import as_plain, time_index
from demitasse.planning.precisions import all_precisions
from demitasse.planning.profile import MeasuredCut, Profile, Timing
from demitasse.planning.quality import AgreementJudge, Qualities, TaskJudge, quality_judge
from demitasse.planning.timing import Encode, Work, plan_work, time_in_turns

BUILT_IN_NAME = "built-in"
MOST_BATCH = 65_536  # texts; they are repeated to fill it
_OPTIONS = "write MeasureOptions(seconds=60)"
_TimedKey = tuple[
    str | None, str, int
]  # the name of a comparison model (`None` for the model itself), precision, layers


@dataclass(frozen=True, kw_only=True)
class MeasureOptions:
    """What is measured and for how long; everything has a default.

    - `cuts`: by default every number of layers at the usual dims. The full size is always measured too, since the
      others are compared with it.
    - `precisions`: "fp32", "int8" and so on; by default all that the model can be run in.
    - `vectors`: how vectors may be stored; "float32" is always measured too.
    - `batch`: texts per batch, for texts per second.
    - `rounds`: maximum number of timing rounds; more of them give steadier times and take longer.
    - `seconds`: time for all timing. If that is short there are fewer rounds, but never fewer than 5.
    - `progress`: whether to show a progress bar; by default on a terminal, if it takes a while.

    >>> MeasureOptions(rounds=5, seconds=5).batch
    32
    """

    cuts: Sequence[Cut | str] | None = None
    precisions: Sequence[str] | None = None
    vectors: Sequence[str] = STORED
    batch: int = 32
    rounds: int = 12
    seconds: float = 60.0
    progress: bool | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.cuts is not None:
            object.__setattr__(self, "cuts", cuts_of(self.cuts))
        for name, allowed in (("precisions", PRECISIONS), ("vectors", STORED)):
            if getattr(self, name) is None and name == "precisions":
                continue
            given = several(name, getattr(self, name), partial(choice, allowed=allowed))
            if not given:
                raise DataError(f"{name} is empty; name at least one of {', '.join(allowed)}, or leave it out")
            object.__setattr__(self, name, given)
        for name, least in (("batch", 1), ("rounds", 2)):
            whole(name, getattr(self, name), least)
        if self.batch > MOST_BATCH:
            raise DataError(f"batch must be at most {MOST_BATCH:,} texts, not {self.batch}")
        if not self.seconds > 0:
            raise DataError(f"seconds must be above 0, not {self.seconds}; 60 is the default")

    def cuts_of(self, full: Cut) -> list[Cut]:
        """The cuts to measure of an encoder of size `full`, smallest first.

        >>> [str(cut) for cut in MeasureOptions(cuts=[Cut(1, 8)]).cuts_of(Cut(3, 32))]
        ['1x8', '3x32']
        """
        full = Cut.of(full)
        if self.cuts is None:
            return grid(range(full.layers + 1), usual_dims(full.dims))
        return sorted({cut.within(full) for cut in cuts_of(self.cuts)} | {full})

    @property
    def kinds(self) -> list[str]:
        """The kinds of stored vectors that are measured, finest first."""
        return [kind for kind in STORED if kind == "float32" or kind in self.vectors]


def measure(
    encoder: Encoder | None = None,
    tasks: Sequence[str | Path | Task] | None = None,
    *,
    texts: Sequence[str] | str | Path | None = None,
    options: MeasureOptions | None = None,
    compare: Sequence[str | Path | Encoder] = (),
) -> Profile:
    """Measure quality, latency, speed and size of `encoder` (default: the built-in model) at many cuts.

    Quality comes from `tasks`, the same as for `demitasse.evaluate`; or from `texts` without labels (a list, or a file
    with one text per line), as agreement with the full model; or, without either, from the sample shipped with
    demitasse. The same texts are timed. A model on torch on a CPU is measured as the blocks it would be exported to.
    `compare` names further models, which are measured beside this one at their full size.

    >>> profile = measure(load(), options=MeasureOptions(cuts=[Cut(1, 64)], rounds=2, seconds=1))
    >>> [str(measured) for measured in profile.rows if measured.vectors == "binary"]
    ['1x64 int8, binary vectors', '6x384 int8, binary vectors']
    >>> profile.full.cut
    Cut(layers=6, dims=384)
    """
    started = time.perf_counter()
    options = MeasureOptions() if options is None else instance("options", options, MeasureOptions, _OPTIONS)
    judge = quality_judge(tasks, texts)
    name = BUILT_IN_NAME if encoder is None else None
    encoder = load() if encoder is None else checked_encoder(encoder)
    cuts, others = options.cuts_of(encoder.full), _comparison_models(compare, encoder, judge)
    with all_precisions(encoder, options.precisions, progress=options.progress) as precisions:
        for note in precisions.notes:
            warnings.warn(note, stacklevel=2)
        ours, theirs = _qualities(judge, precisions.encoders, cuts, others, options)
        work = plan_work(judge.single_texts, judge.batch_texts, options.batch)
        timings, rounds = _timings(precisions.encoders, cuts, others, work, options)
        measured = [
            _measured_cut(precisions.encoders[precision], cut, kind, quality, timings[None, precision, cut.layers])
            for (precision, cut, kind), quality in ours.values.items()
        ]
    return Profile(
        model=name or encoder.name,
        fingerprint=encoder.fingerprint,
        measure=judge.measure,
        quality_error=ours.error,
        batch=options.batch,
        rows=tuple(measured),
        others=tuple(
            replace(
                _measured_cut(other, other.full, "float32", theirs[key], timings[_timed_key(key, other, other.full)]),
                name=key,
            )
            for key, other in others.items()
        ),
        made={
            "machine": machine(),
            "runs_on": encoder.place,
            "exported": list(precisions.exported),
            "versions": versions(),
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "rounds": rounds,
            "single_texts": rounds * len(work.singles),
            "seconds": round(time.perf_counter() - started, 1),
            "notes": list(precisions.notes),
            "index": as_plain(time_index(cut.dims for cut in cuts)),
        },
    )


def _comparison_models(
    compare: Sequence[str | Path | Encoder], encoder: Encoder, judge: TaskJudge | AgreementJudge
) -> dict[str, Encoder]:
    """The models to compare with, by name, on a device of the same kind."""
    if not isinstance(compare, (list, tuple)):
        raise DataError(f"compare must be a list, not one {type(compare).__name__}; wrap it: [model]")
    if compare and isinstance(judge, AgreementJudge):
        raise DataError(
            "other models cannot be compared on texts without labels, since to disagree with this model is not to be "
            "worse; give tasks, or leave compare out"
        )
    device = encoder.device_kind if encoder.device_kind in ("cuda", "mps") else "cpu"
    others: dict[str, Encoder] = {}
    for number, given in enumerate(compare):
        if given in compare[:number]:
            raise DataError(f"{given} is named twice in compare; name each model once")
        other = given if isinstance(given, Encoder) else load(given, device=device)
        longer_name = f"{other.name} {other.full}" if isinstance(given, Encoder) else str(given)
        others[other.name if other.name not in others else longer_name] = other
    return others


def _qualities(
    judge: TaskJudge | AgreementJudge,
    encoders: Mapping[str, Encoder],
    cuts: Sequence[Cut],
    others: Mapping[str, Encoder],
    options: MeasureOptions,
) -> tuple[Qualities, dict[str, float]]:
    """Of the encoders at every cut and for every kind of vectors, and of the comparison models at their full size."""
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
) -> tuple[dict[_TimedKey, Timing], int]:
    """Of every number of layers at every precision, and of the comparison models; and how many rounds were run.

    Each number of layers is timed at its widest cut, and all its cuts share that time: what fewer dims save, part of
    one small product, is too little to measure beside the layers.
    """
    widest = {cut.layers: cut for cut in sorted(cuts)}
    timed = {
        _timed_key(None, encoder, cut): _fresh_encoders(encoder.cut(*cut))
        for encoder in encoders.values()
        for cut in widest.values()
    }
    timed |= {_timed_key(name, other, other.full): _fresh_encoders(other) for name, other in others.items()}
    with progress_bar("timing", options.rounds * len(timed), show=options.progress) as advance:
        return time_in_turns(
            timed, work, rounds=options.rounds, seconds=options.seconds, clock=time.perf_counter, advance=advance
        )


def _timed_key(name: str | None, encoder: Encoder, cut: Cut) -> _TimedKey:
    return name, encoder.precision, cut.layers


def _fresh_encoders(encoder: Encoder) -> Callable[[], Encode]:
    """Makes encoders that have not seen any text yet: words that were seen before are tokenised faster."""

    def make() -> Encode:
        fresh: Encoder = replace(cast(Any, encoder), reader=encoder.reader.fresh())
        return lambda texts, prompt_name: fresh.encode(texts, prompt_name=prompt_name, progress=False)

    return make


def _measured_cut(encoder: Encoder, cut: Cut, kind: str, quality: float, timing: Timing) -> MeasuredCut:
    return MeasuredCut(
        cut,
        encoder.precision,
        kind,
        quality,
        timing,
        model_mb=encoder.model_bytes(cut) / 1e6,
        vector_bytes=vector_bytes(cut.dims, kind),
    )
