"""One sentence-embedding model, cut to any size.

    import demitasse as dt

    encoder = dt.load()                             # the built-in model; or a folder, or a hub name
    small = encoder.cut(layers=3, dims=128)         # shares the weights; encoder is untouched
    vectors = small.encode(["a ristretto", "a lungo"])

Importing this package imports neither torch nor transformers: what needs them is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from demitasse._version import __version__
from demitasse.cut import Cut, grid
from demitasse.errors import (
    BackboneError,
    CutError,
    DataError,
    DemitasseError,
    DeviceError,
    FolderError,
    MissingExtra,
)
from demitasse.extras import EXPORT, TRAIN, need

if TYPE_CHECKING:
    from demitasse.encoder import Encoder as Encoder
    from demitasse.exporting import export as export
    from demitasse.fitting import fit_exits as fit_exits
    from demitasse.loading import load as load

_HOME = {"Encoder": "encoder", "export": "exporting", "fit_exits": "fitting", "load": "loading"}
_NEEDS = {"fit_exits": TRAIN, "export": EXPORT}

__all__ = [
    "BackboneError",
    "Cut",
    "CutError",
    "DataError",
    "DemitasseError",
    "DeviceError",
    "Encoder",
    "FolderError",
    "MissingExtra",
    "__version__",
    "export",
    "fit_exits",
    "grid",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'demitasse' has no attribute {name!r}")
    need(f"demitasse.{name}", _NEEDS.get(name, {}))
    return getattr(importlib.import_module(f"demitasse.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
