"""How a row of a profile is put to use: the commands and the Python to type, or the model written at once."""

from __future__ import annotations

import shlex
from pathlib import Path

from demitasse.encoding.block_encoder import BlockEncoder
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.loading import load
from demitasse.errors import DataError, FolderError
from demitasse.planning.measure import BUILT_IN_NAME
from demitasse.planning.profile import MeasuredCut, Profile

_FORMATS = {"fp32": "blocks", "int8": "blocks-int8"}


def commands(profile: Profile, row: MeasuredCut, written: Path | None = None) -> list[str]:
    """What to type to encode with a row; `written` is where its model already lies."""
    lines = []
    model, cut = (None if profile.model == BUILT_IN_NAME else profile.model), f" --cut {row.cut}"
    if written is not None:
        model, cut = str(written), ""
    elif model is not None and _is_exported(profile, row):
        lines.append(
            f"demitasse export {shlex.quote(model)} --cut {row.cut} --format {_FORMATS[row.precision]} --out small"
        )
        model, cut = "small", ""
    named = "" if model is None else f" --model {shlex.quote(model)}"
    kept = "" if row.vectors == "float32" else f" --vectors {row.vectors}"
    return [*lines, f"demitasse encode{named}{cut}{kept} --input texts.txt --output vectors.npy"]


def python(profile: Profile, row: MeasuredCut, written: Path | None = None) -> str:
    """The same in Python, on one line."""
    model, cut = (None if profile.model == BUILT_IN_NAME else profile.model), f".cut({row.cut.layers}, {row.cut.dims})"
    if written is not None:
        model, cut = str(written), ""
    elif model is not None and _is_exported(profile, row):
        model, cut = "small", ""
    encoded = f"dt.load({'' if model is None else repr(model)}){cut}.encode(texts)"
    return encoded if row.vectors == "float32" else f'dt.store({encoded}, "{row.vectors}")'


def planned_model(profile: Profile, model: str | None, device: str | None) -> Encoder:
    """The model that a profile was made of, which `model` names where its own name does not."""
    name = model or (None if profile.model == BUILT_IN_NAME else profile.model)
    try:
        encoder = load(name, device=device)
    except FolderError:
        if model is not None:
            raise
        raise DataError(
            f"the model of this profile, {profile.model!r}, is not here; say where, as --model DIR"
        ) from None
    if encoder.fingerprint != profile.fingerprint:
        raise DataError(
            f"{model or profile.model} is not the model that was measured (another fingerprint); "
            "give the one that was, or measure this one"
        )
    return encoder


def write_row(encoder: Encoder, row: MeasuredCut, out: Path) -> str:
    """Write the model of a row to a folder, whole or not at all; and say what was written."""
    small = encoder.cut(*row.cut)
    if isinstance(small, BlockEncoder):
        if small.precision != row.precision:
            raise DataError(
                f"{row} cannot be written from {small.precision} blocks; give --model the model they were exported from"
            )
        small.save(out)
    elif row.precision in _FORMATS:
        from demitasse.exporting.export import export

        return str(export(small, out, format=_FORMATS[row.precision]))
    else:  # half precision, on a GPU: the weights are written in full, and turned when they are loaded
        small.save(out)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return f"{out}: {small!r}, {size / 1e6:.1f} MB"


def _is_exported(profile: Profile, row: MeasuredCut) -> bool:
    """Whether what was measured were blocks made for it of a model on torch."""
    return profile.made.get("runs_on") == "cpu" and row.precision in _FORMATS
