"""One sentence-embedding model, cut to any size.

    import demitasse as dt

    encoder = dt.load()                             # the built-in model; or a folder, or a hub name
    small = encoder.cut(layers=3, dims=128)         # shares the weights; encoder is untouched
    vectors = small.encode(["a ristretto", "a lungo"])

Importing this package imports neither torch nor transformers: what needs them is loaded when it is first used. Where
an extra is not installed, the names that need it are there, and say what to type when they are used.
"""

from __future__ import annotations

import importlib
import os as _os
from typing import TYPE_CHECKING, Any

from demitasse.errors import MissingExtra as _MissingExtra
from demitasse.extras import EXPORT, MTEB, TORCH, TRAIN, Extra, need, stand_in

# onnxruntime 1.29 and later tells Microsoft which models are run, from the moment it is imported, and leaves the id of
# this device in the home directory. Here rather than beside its import, which might come after another one.
_os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if TYPE_CHECKING:  # the table below, as type checkers read it
    from demitasse._version import __version__ as __version__
    from demitasse.corpora.embed import embed_corpus as embed_corpus
    from demitasse.corpora.options import CorpusOptions as CorpusOptions
    from demitasse.corpora.summary import CorpusSummary as CorpusSummary
    from demitasse.cut import Cut as Cut
    from demitasse.cut import grid as grid
    from demitasse.data.pairs import Pairs as Pairs
    from demitasse.data.pairs import read_pairs as read_pairs
    from demitasse.display.profile_page import report as report
    from demitasse.encoding.encoder import Encoder as Encoder
    from demitasse.encoding.loading import load as load
    from demitasse.encoding.loading import load_teacher as load_teacher
    from demitasse.encoding.vectors import restore as restore
    from demitasse.encoding.vectors import store as store
    from demitasse.encoding.verifying import verify as verify
    from demitasse.errors import BackboneError as BackboneError
    from demitasse.errors import CutError as CutError
    from demitasse.errors import DataError as DataError
    from demitasse.errors import DemitasseError as DemitasseError
    from demitasse.errors import DeviceError as DeviceError
    from demitasse.errors import FolderError as FolderError
    from demitasse.errors import FullDisk as FullDisk
    from demitasse.errors import MissingExtra as MissingExtra
    from demitasse.errors import TrainingError as TrainingError
    from demitasse.errors import TrainingStopped as TrainingStopped
    from demitasse.evaluation.evaluate import evaluate as evaluate
    from demitasse.evaluation.evaluation import Evaluation as Evaluation
    from demitasse.evaluation.evaluation_json import read_evaluation as read_evaluation
    from demitasse.exporting.export import export as export
    from demitasse.integrations.mteb import mteb_model as mteb_model
    from demitasse.objectives.aligned import Aligned as Aligned
    from demitasse.objectives.compression import Principal as Principal
    from demitasse.objectives.compression import Published as Published
    from demitasse.objectives.elastic import Elastic as Elastic
    from demitasse.objectives.pair_losses import AnglE as AnglE
    from demitasse.objectives.pair_losses import CoSENT as CoSENT
    from demitasse.objectives.pair_losses import InfoNCE as InfoNCE
    from demitasse.objectives.published import AdaptiveLayer as AdaptiveLayer
    from demitasse.objectives.published import Espresso as Espresso
    from demitasse.objectives.published import EspressoReleased as EspressoReleased
    from demitasse.objectives.published import Matryoshka as Matryoshka
    from demitasse.objectives.published import Matryoshka2d as Matryoshka2d
    from demitasse.objectives.published import Starbucks as Starbucks
    from demitasse.objectives.published import TwoDMSE as TwoDMSE
    from demitasse.planning.budget import Budget as Budget
    from demitasse.planning.budget import NothingFits as NothingFits
    from demitasse.planning.measure import MeasureOptions as MeasureOptions
    from demitasse.planning.measure import measure as measure
    from demitasse.planning.profile import Profile as Profile
    from demitasse.planning.profile_json import read_profile as read_profile
    from demitasse.search.hits import Hit as Hit
    from demitasse.search.index import Index as Index
    from demitasse.search.scan import Scan as Scan
    from demitasse.training.fit_exits import fit_exits as fit_exits
    from demitasse.training.options import TrainOptions as TrainOptions
    from demitasse.training.train import train as train

# What `import demitasse` offers: each name, the module it lives in, and the optional part it needs, if any.
_PUBLIC: dict[str, tuple[str, Extra | None]] = {
    "AdaptiveLayer": ("objectives.published", TRAIN),
    "Aligned": ("objectives.aligned", TRAIN),
    "AnglE": ("objectives.pair_losses", TRAIN),
    "BackboneError": ("errors", None),
    "Budget": ("planning.budget", None),
    "CoSENT": ("objectives.pair_losses", TRAIN),
    "CorpusOptions": ("corpora.options", None),
    "CorpusSummary": ("corpora.summary", None),
    "Cut": ("cut", None),
    "CutError": ("errors", None),
    "DataError": ("errors", None),
    "DemitasseError": ("errors", None),
    "DeviceError": ("errors", None),
    "Elastic": ("objectives.elastic", TRAIN),
    "Encoder": ("encoding.encoder", None),
    "Espresso": ("objectives.published", TRAIN),
    "EspressoReleased": ("objectives.published", TRAIN),
    "Evaluation": ("evaluation.evaluation", None),
    "FolderError": ("errors", None),
    "FullDisk": ("errors", None),
    "Hit": ("search.hits", None),
    "Index": ("search.index", None),
    "InfoNCE": ("objectives.pair_losses", TRAIN),
    "Matryoshka": ("objectives.published", TRAIN),
    "Matryoshka2d": ("objectives.published", TRAIN),
    "MeasureOptions": ("planning.measure", None),
    "MissingExtra": ("errors", None),
    "NothingFits": ("planning.budget", None),
    "Pairs": ("data.pairs", None),
    "Principal": ("objectives.compression", TRAIN),
    "Profile": ("planning.profile", None),
    "Published": ("objectives.compression", TRAIN),
    "Scan": ("search.scan", None),
    "Starbucks": ("objectives.published", TRAIN),
    "TrainOptions": ("training.options", TRAIN),
    "TrainingError": ("errors", None),
    "TrainingStopped": ("errors", None),
    "TwoDMSE": ("objectives.published", TRAIN),
    "__version__": ("_version", None),
    "embed_corpus": ("corpora.embed", None),
    "evaluate": ("evaluation.evaluate", None),
    "export": ("exporting.export", EXPORT),
    "fit_exits": ("training.fit_exits", TORCH),
    "grid": ("cut", None),
    "load": ("encoding.loading", None),
    "load_teacher": ("encoding.loading", None),
    "measure": ("planning.measure", None),
    "mteb_model": ("integrations.mteb", MTEB),
    "read_evaluation": ("evaluation.evaluation_json", None),
    "read_pairs": ("data.pairs", None),
    "read_profile": ("planning.profile_json", None),
    "report": ("display.profile_page", None),
    "restore": ("encoding.vectors", None),
    "store": ("encoding.vectors", None),
    "train": ("training.train", TRAIN),
    "verify": ("encoding.verifying", None),
}
__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'demitasse' has no attribute {name!r}")
    module, extra = _PUBLIC[name]
    if extra is not None:
        try:
            need(f"demitasse.{name}", extra)
        except _MissingExtra as missing:
            # Not an error yet: `help(demitasse)`, `from demitasse import *` and completion look at every name.
            return stand_in(name, str(missing))
    return getattr(importlib.import_module(f"demitasse.{module}"), name)


def __dir__() -> list[str]:
    return sorted(_PUBLIC)
