"""Optional parts: whether they are installed, and the line to type if they are not."""

from __future__ import annotations

import importlib.util

from demitasse.errors import MissingExtra

# The packages that each part needs, with the extra that installs them.
NONE: dict[str, str] = {}
TRAIN = {"torch": "train", "transformers": "train", "safetensors": "train", "accelerate": "train"}
EXPORT = {"torch": "train", "transformers": "train", "safetensors": "train", "onnx": "export", "onnxscript": "export"}
MTEB = {"mteb": "mteb"}


def need(feature: str, packages: dict[str, str]) -> None:
    """Refuse `feature` with the line to type unless all of `packages` (each with its extra) are installed."""
    for package, extra in packages.items():
        if not _installed(package):
            raise MissingExtra(feature, package, extra)


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # it is being imported, or was blocked
        return False
