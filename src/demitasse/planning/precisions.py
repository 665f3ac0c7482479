"""An encoder in every precision that a deployment could run it in. No torch is needed for one that runs on none.

A model on torch on a CPU is measured as the blocks it would be exported to, since those are what a deployment runs;
they are made in a temporary folder. Blocks are what they are, and so is a model on a GPU or in half precision.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from demitasse.encoding.encoder import Encoder
from demitasse.encoding.loading import load
from demitasse.errors import BackboneError, DataError, FolderError, MissingExtra
from demitasse.extras import EXPORT, need

_FORMATS = {"fp32": "blocks", "int8": "blocks-int8"}


@dataclass(frozen=True)
class Variants:
    """Encoders by their precision, finest first, and a sentence about each that could not be had."""

    encoders: dict[str, Encoder]
    notes: tuple[str, ...] = ()


@contextmanager
def variants(encoder: Encoder, wanted: Sequence[str] | None, *, progress: bool | None = None) -> Iterator[Variants]:
    """The precisions of `encoder`, those of `wanted` if it is given; usable within the block."""
    if encoder.place != "cpu":  # blocks, a GPU, or half precision
        yield _checked(Variants({encoder.precision: encoder}), wanted)
        return
    try:
        need("measuring blocks of a model on torch", EXPORT)
    except MissingExtra as missing:
        yield _checked(Variants({encoder.precision: encoder}, (f"fp32 was measured on torch: {missing}",)), wanted)
        return
    _check(wanted, [*_FORMATS], ())
    with tempfile.TemporaryDirectory(prefix="demitasse-") as folder:
        yield _checked(_exported(encoder, Path(folder), wanted, progress=progress), wanted)


def _exported(encoder: Encoder, folder: Path, wanted: Sequence[str] | None, *, progress: bool | None) -> Variants:
    from demitasse.exporting.export import export_traced

    made: dict[str, Encoder] = {}
    notes = []
    for precision, format in _FORMATS.items():
        if wanted is not None and precision not in wanted:
            continue
        traced = folder / "fp32" if "fp32" in made and made["fp32"] is not encoder else None
        try:
            export_traced(encoder, folder / precision, traced, format=format, progress=progress)
            made[precision] = load(folder / precision, device="cpu")
        except (BackboneError, FolderError) as problem:  # what blocks cannot hold, or int8 spoils
            if precision == "fp32":
                made[precision] = encoder
                notes.append(f"fp32 was measured on torch, not as blocks: {problem}")
            else:
                notes.append(f"{precision} was not measured: {problem}")
    return Variants(made, tuple(notes))


def _checked(found: Variants, wanted: Sequence[str] | None) -> Variants:
    _check(wanted, [*found.encoders], found.notes)
    return found


def _check(wanted: Sequence[str] | None, there: Sequence[str], notes: Sequence[str]) -> None:
    lacking = [precision for precision in wanted or () if precision not in there]
    if lacking:
        why = f" ({'; '.join(notes)})" if notes else ""
        other = f"it can be in {' and '.join(there)}" if there else "leave precisions out"
        raise DataError(f"{lacking[0]} of this model cannot be measured{why}; {other}")
