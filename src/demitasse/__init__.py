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
    NothingFits,
    TrainingError,
    TrainingStopped,
)
from demitasse.extras import EXPORT, MTEB, TRAIN, need

if TYPE_CHECKING:
    from demitasse.budget import Budget as Budget
    from demitasse.compress import Principal as Principal
    from demitasse.compress import Published as Published
    from demitasse.elastic import Elastic as Elastic
    from demitasse.encoder import Encoder as Encoder
    from demitasse.evaluating import evaluate as evaluate
    from demitasse.evaluation import Evaluation as Evaluation
    from demitasse.evaluation_files import read_evaluation as read_evaluation
    from demitasse.exporting import export as export
    from demitasse.fitting import fit_exits as fit_exits
    from demitasse.integrations.mteb import mteb_model as mteb_model
    from demitasse.loading import load as load
    from demitasse.measure_options import MeasureOptions as MeasureOptions
    from demitasse.measuring import measure as measure
    from demitasse.objectives import AdaptiveLayer as AdaptiveLayer
    from demitasse.objectives import Espresso as Espresso
    from demitasse.objectives import EspressoReleased as EspressoReleased
    from demitasse.objectives import Matryoshka as Matryoshka
    from demitasse.objectives import Matryoshka2d as Matryoshka2d
    from demitasse.objectives import Starbucks as Starbucks
    from demitasse.objectives import TwoDMSE as TwoDMSE
    from demitasse.pair_losses import AnglE as AnglE
    from demitasse.pair_losses import CoSENT as CoSENT
    from demitasse.pair_losses import InfoNCE as InfoNCE
    from demitasse.pairs import Pairs as Pairs
    from demitasse.pairs import read_pairs as read_pairs
    from demitasse.profile import Profile as Profile
    from demitasse.profile_files import read_profile as read_profile
    from demitasse.reporting import report as report
    from demitasse.storing import restore as restore
    from demitasse.storing import store as store
    from demitasse.train_options import TrainOptions as TrainOptions
    from demitasse.training import train as train

_IN = {
    "budget": ("Budget",),
    "compress": ("Principal", "Published"),
    "elastic": ("Elastic",),
    "encoder": ("Encoder",),
    "evaluating": ("evaluate",),
    "evaluation": ("Evaluation",),
    "evaluation_files": ("read_evaluation",),
    "exporting": ("export",),
    "fitting": ("fit_exits",),
    "integrations.mteb": ("mteb_model",),
    "loading": ("load",),
    "measure_options": ("MeasureOptions",),
    "measuring": ("measure",),
    "objectives": (
        *("AdaptiveLayer", "Espresso", "EspressoReleased", "Matryoshka", "Matryoshka2d", "Starbucks", "TwoDMSE"),
    ),
    "pair_losses": ("AnglE", "CoSENT", "InfoNCE"),
    "pairs": ("Pairs", "read_pairs"),
    "profile": ("Profile",),
    "profile_files": ("read_profile",),
    "reporting": ("report",),
    "storing": ("restore", "store"),
    "train_options": ("TrainOptions",),
    "training": ("train",),
}
_HOME = {name: module for module, names in _IN.items() for name in names}
_FREE = {  # modules that need no extra
    *("encoder", "evaluating", "evaluation", "evaluation_files", "loading", "pairs"),
    *("budget", "profile", "profile_files"),
    *("measure_options", "measuring", "storing"),
    "reporting",
}
_NEEDS = {name: TRAIN for name, module in _HOME.items() if module not in _FREE} | {"export": EXPORT, "mteb_model": MTEB}

__all__ = [
    "AdaptiveLayer",
    "AnglE",
    "BackboneError",
    "Budget",
    "CoSENT",
    "Cut",
    "CutError",
    "DataError",
    "DemitasseError",
    "DeviceError",
    "Elastic",
    "Encoder",
    "Espresso",
    "EspressoReleased",
    "Evaluation",
    "FolderError",
    "InfoNCE",
    "Matryoshka",
    "Matryoshka2d",
    "MeasureOptions",
    "MissingExtra",
    "NothingFits",
    "Pairs",
    "Principal",
    "Profile",
    "Published",
    "Starbucks",
    "TrainOptions",
    "TrainingError",
    "TrainingStopped",
    "TwoDMSE",
    "__version__",
    "evaluate",
    "export",
    "fit_exits",
    "grid",
    "load",
    "measure",
    "mteb_model",
    "read_evaluation",
    "read_pairs",
    "read_profile",
    "report",
    "restore",
    "store",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'demitasse' has no attribute {name!r}")
    need(f"demitasse.{name}", _NEEDS.get(name, {}))
    return getattr(importlib.import_module(f"demitasse.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
