"""How to use a measured cut: the commands and the Python to type, or its model written to a folder."""

from __future__ import annotations

import shlex
from pathlib import Path

from demitasse.encoding.block_encoder import BlockEncoder
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.loading import load
from demitasse.encoding.precision import BLOCK_FORMATS
from demitasse.errors import DataError, FolderError, MissingExtra
from demitasse.extras import EXPORT, need
from demitasse.planning.measure import BUILT_IN_NAME
from demitasse.planning.profile import MeasuredCut, Profile


def exported_precisions(profile: Profile) -> tuple[str, ...]:
    """The precisions that were measured as blocks exported for the measurement, and so have to be exported first."""
    if profile.model == BUILT_IN_NAME:
        return ()
    recorded = profile.made.get("exported")
    if isinstance(recorded, (list, tuple)):
        return tuple(precision for precision in BLOCK_FORMATS if precision in recorded)
    # Profiles of earlier versions do not say; most models on torch on a CPU were exported.
    return tuple(BLOCK_FORMATS) if profile.made.get("runs_on") == "cpu" else ()


def commands(profile: Profile, measured: MeasuredCut, written: Path | None = None) -> list[str]:
    """What to type to encode with a measured cut; `written` is the folder its model was written to, if it was."""
    lines = []
    model, cut = (None if profile.model == BUILT_IN_NAME else profile.model), f" --cut {measured.cut}"
    if written is not None:
        model, cut = str(written), ""
    elif model is not None and measured.precision in exported_precisions(profile):
        format = BLOCK_FORMATS[measured.precision]
        lines.append(f"demitasse export {shlex.quote(model)} --cut {measured.cut} --format {format} --out small")
        model, cut = "small", ""
    model_option = "" if model is None else f" --model {shlex.quote(model)}"
    vectors_option = "" if measured.vectors == "float32" else f" --vectors {measured.vectors}"
    return [*lines, f"demitasse encode{model_option}{cut}{vectors_option} --input texts.txt --output vectors.npy"]


def python(profile: Profile, measured: MeasuredCut, written: Path | None = None) -> str:
    """The same in Python, on one line."""
    layers, dims = measured.cut
    model, cut = (None if profile.model == BUILT_IN_NAME else profile.model), f".cut({layers}, {dims})"
    if written is not None:
        model, cut = str(written), ""
    elif model is not None and measured.precision in exported_precisions(profile):
        model, cut = "small", ""
    encoded = f"dt.load({'' if model is None else repr(model)}){cut}.encode(texts)"
    return encoded if measured.vectors == "float32" else f'dt.store({encoded}, "{measured.vectors}")'


def planned_model(profile: Profile, model: str | None, device: str | None) -> Encoder:
    """The model that a profile was measured on; `model` says where it is, if the profile's own name does not."""
    name = model or (None if profile.model == BUILT_IN_NAME else profile.model)
    try:
        encoder = load(name, device=device)
    except MissingExtra:
        need(f"exporting {name}", EXPORT)  # which takes more than loading it
        raise
    except FolderError:
        if model is not None:
            raise
        raise DataError(
            f"the model of this profile, {profile.model!r}, was not found; give it as --model DIR"
        ) from None
    if encoder.fingerprint != profile.fingerprint:
        raise DataError(
            f"{model or profile.model} is not the model that was measured (its fingerprint differs); "
            "give the one that was, or measure this one"
        )
    return encoder


def write_model(profile: Profile, encoder: Encoder, measured: MeasuredCut, out: Path, *, force: bool = False) -> str:
    """Write the model of a measured cut to a folder, atomically; returns a line that says what was written."""
    small = encoder.cut(*measured.cut)
    if isinstance(small, BlockEncoder):
        if small.precision != measured.precision:
            raise DataError(
                f"{measured} cannot be written from {small.precision} blocks; "
                "give --model the model they were exported from"
            )
        small.save(out, force=force)
    elif measured.precision in BLOCK_FORMATS and not _fell_back_to_torch(profile, encoder, measured):
        need(f"exporting {measured}", EXPORT)
        from demitasse.exporting.export import export

        return str(export(small, out, format=BLOCK_FORMATS[measured.precision], force=force))
    else:  # half precision is saved as fp32 weights, and converted when they are loaded
        small.save(out, force=force)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return f"{out}: {small!r}, {size / 1e6:.1f} MB"


def _fell_back_to_torch(profile: Profile, encoder: Encoder, measured: MeasuredCut) -> bool:
    """Whether this was measured on torch on a CPU since it could not be exported: it cannot be exported now either."""
    recorded = "exported" in profile.made and encoder.device_kind == "cpu"
    return recorded and measured.precision not in exported_precisions(profile)
