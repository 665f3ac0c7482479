"""An encoder in every precision that it could be deployed in. Needs torch only for a model that runs on torch.

A model on torch on a CPU is measured as the blocks it would be exported to, since those are what a deployment runs;
they are written to a temporary folder. Blocks, and models on a GPU or in half precision, are measured as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from demitasse.encoding.encoder import Encoder
from demitasse.encoding.loading import load
from demitasse.encoding.precision import BLOCK_FORMATS
from demitasse.errors import BackboneError, DataError, FolderError, FullDisk, MissingExtra
from demitasse.extras import EXPORT, need
from demitasse.host.scratch import scratch_folder


@dataclass(frozen=True)
class Precisions:
    """Encoders by precision, finest first."""

    encoders: dict[str, Encoder]
    exported: tuple[str, ...] = ()  # the precisions that are blocks exported for this measurement
    notes: tuple[str, ...] = ()  # a sentence about each precision that was not measured as blocks


@contextmanager
def all_precisions(
    encoder: Encoder, wanted: Sequence[str] | None, *, progress: bool | None = None
) -> Iterator[Precisions]:
    """The precisions of `encoder`, or those of them that are `wanted`; usable inside the `with` block only."""
    if (encoder.runtime, encoder.device_kind, encoder.precision) != ("torch", "cpu", "fp32"):
        yield _checked(Precisions({encoder.precision: encoder}), wanted)
        return
    try:
        need("measuring blocks of a model on torch", EXPORT)
    except MissingExtra as missing:
        note = f"fp32 was measured on torch: {missing}"
        yield _checked(Precisions({encoder.precision: encoder}, notes=(note,)), wanted)
        return
    _check(wanted, [*BLOCK_FORMATS], ())
    with scratch_folder() as folder:
        yield _checked(_as_blocks(encoder, folder, wanted, progress=progress), wanted)


def _as_blocks(encoder: Encoder, folder: Path, wanted: Sequence[str] | None, *, progress: bool | None) -> Precisions:
    from demitasse.exporting.export import export_traced

    encoders: dict[str, Encoder] = {}
    exported: list[str] = []
    notes = []
    for precision, format in BLOCK_FORMATS.items():
        if wanted is not None and precision not in wanted:
            continue
        traced = folder / "fp32" if "fp32" in exported else None
        try:
            export_traced(encoder, folder / precision, traced, format=format, progress=progress)
            encoders[precision] = load(folder / precision, device="cpu")
            exported.append(precision)
        except FullDisk:
            raise
        except (BackboneError, FolderError) as problem:  # blocks cannot hold the model, or int8 ruins it
            if precision == "fp32":
                encoders[precision] = encoder
                notes.append(f"fp32 was measured on torch, not as blocks: {problem}")
            else:
                notes.append(f"{precision} was not measured: {problem}")
    return Precisions(encoders, tuple(exported), tuple(notes))


def _checked(precisions: Precisions, wanted: Sequence[str] | None) -> Precisions:
    _check(wanted, [*precisions.encoders], precisions.notes)
    return precisions


def _check(wanted: Sequence[str] | None, available: Sequence[str], notes: Sequence[str]) -> None:
    missing = [precision for precision in wanted or () if precision not in available]
    if missing:
        why = f" ({'; '.join(notes)})" if notes else ""
        instead = f"choose {' or '.join(available)}" if available else "leave precisions out"
        raise DataError(f"this model cannot be measured in {missing[0]}{why}; {instead}")
