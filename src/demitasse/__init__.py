"""One sentence-embedding model, cut to any size.

    import demitasse as dt

    encoder = dt.load("path/to/model")              # folder or hub name
    small = encoder.cut(layers=3, dims=128)         # shares the weights; encoder is untouched
    vectors = small.encode(["a ristretto", "a lungo"])

Importing this package imports neither torch nor transformers: what needs them is loaded when it is first used.
"""

from __future__ import annotations

import importlib
import importlib.util
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

if TYPE_CHECKING:
    from demitasse.encoder import Encoder as Encoder
    from demitasse.fitting import fit_exits as fit_exits
    from demitasse.folder import load as load

_WITH_TORCH = {"Encoder": "encoder", "fit_exits": "fitting", "load": "folder"}

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
    "fit_exits",
    "grid",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _WITH_TORCH:
        raise AttributeError(f"module 'demitasse' has no attribute {name!r}")
    for package in ("torch", "transformers", "safetensors"):
        if not _installed(package):
            raise MissingExtra(f"demitasse.{name}", package, "train")
    return getattr(importlib.import_module(f"demitasse.{_WITH_TORCH[name]}"), name)


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # it is being imported, or was blocked
        return False


def __dir__() -> list[str]:
    return sorted(__all__)
