"""`checked_encoder`: what the calls that take an encoder say if they are given something else."""

from __future__ import annotations

from demitasse.encoding.encoder import Encoder
from demitasse.errors import DataError, shown


def checked_encoder(given: object) -> Encoder:
    """`given`, which must be an encoder."""
    if not isinstance(given, Encoder):
        raise DataError(f"encoder must be an Encoder, not {shown(given)}; load one with demitasse.load(…)")
    return given
