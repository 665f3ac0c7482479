"""transformers models, read from and written to folders: safetensors only, and every weight must be there."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open

from demitasse.errors import FolderError, reason
from demitasse.host.fields import Fields
from demitasse.host.json_files import read_json

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel


# Of a config: who wrote it and how it is stored, and the number of layers, which a cut says itself.
_NOT_COMPUTED = ("transformers_version", "architectures", "dtype", "torch_dtype", "matryoshka_dimensions", "use_cache")


def read_model(folder: str, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """The transformer in `folder`: from safetensors only, and every weight must be there.

    Code in the folder is never run, and nobody is asked whether to: transformers would read the answer from stdin.
    """
    from transformers import AutoConfig, AutoModel, AutoModelForTextEncoding

    listed = _listed_weights(Path(folder))
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        _check_counts(config)
        _check_layers(config, Path(folder) / "model.safetensors", listed)
        # T5 and similar models are loaded as their encoder; for most others both give the same class.
        encoders = AutoModelForTextEncoding._model_mapping
        auto = AutoModelForTextEncoding if type(config) in encoders else AutoModel
        with _quiet_transformers():
            # The dtype is always given: transformers would otherwise take bfloat16 from the config.
            model, report = auto.from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                use_safetensors=True,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except Exception as problem:  # transformers, safetensors and json each raise their own errors
        raise FolderError(
            f"no model can be read from {folder} ({reason(problem)}); it needs config.json and its weights as "
            "model.safetensors (pickled weights are never read, and code in a folder is never run)"
        ) from problem
    _refuse_missing(folder, report, config)
    return model.to(device).eval()  # type: ignore[no-any-return]


def _check_counts(config: PreTrainedConfig) -> None:
    """Refuse a negative number of anything: transformers takes it, and fails with the first text."""
    for name, value in config.to_dict().items():
        if type(value) is int and value < 0 and name.startswith(("num_", "n_")):
            raise ValueError(f"config.json says {name}: {value}")


def _check_layers(config: PreTrainedConfig, single: Path, listed: Mapping[str, str]) -> None:
    """Refuse more layers than there are weights: transformers would make them all before it looks for weights."""
    layers, weights = getattr(config, "num_hidden_layers", 0), len(listed)
    if single.is_file():
        with safe_open(single, "pt") as file:
            weights = len(file.keys())
    if weights and layers > weights:
        raise ValueError(f"config.json says {layers} layers, and the weights are {weights} tensors")


def _listed_weights(folder: Path) -> Mapping[str, str]:
    """The file of each weight, where they are in several; refused if one of these is outside the folder."""
    path = folder / "model.safetensors.index.json"
    if not path.is_file():
        return {}
    index = Fields(read_json(path), path, "copy or save the model again")
    listed = index.text_of("weight_map")
    for name in {*listed.values()}:
        if PureWindowsPath(name).parts != (name,):  # which knows what is a path on POSIX, too
            raise index.problem(f"names {name!a:.80}, which is outside the folder")
    return listed


def architecture_facts(model: PreTrainedModel) -> dict[str, Any]:
    """What a model computes with its weights: its class, and what its config says other than by default.

    Two models with the same weights are not the same if one has more heads, another norm or looks both ways.
    """
    config = model.config.to_diff_dict()
    facts = {name: value for name, value in config.items() if name not in _NOT_COMPUTED and not name.startswith("_")}
    written: dict[str, Any] = json.loads(json.dumps({"class": type(model).__name__, **facts}, default=str))
    return written


def write_model(model: PreTrainedModel, folder: str) -> None:
    """Write the transformer's config.json and its weights as safetensors into `folder`."""
    with _quiet_transformers():
        model.save_pretrained(folder)


def _refuse_missing(folder: str, report: Mapping[str, Any], config: PreTrainedConfig) -> None:
    """Refuse a folder without weights that transformers would make up at random, as for a model sliced by hand."""
    # The pooler is not used here, and many good checkpoints come without it.
    missing = sorted(key for key in report["missing_keys"] if not re.match(r"(.*\.)?pooler\.", key))
    mismatched = sorted(str(entry[0]) for entry in report["mismatched_keys"])
    if missing or mismatched:
        named = ", ".join((missing + mismatched)[:3])
        raise FolderError(
            f"the weights in {folder} do not fit its config.json of {config.num_hidden_layers} layers: "
            f"{len(missing)} are missing and {len(mismatched)} have the wrong shape (such as {named}); "
            "if layers were removed by hand, set num_hidden_layers to the number left"
        )


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """No progress bars and no load report: what matters in it is checked here and said in one sentence."""
    from transformers.utils import logging as their_logging

    level, bars = their_logging.get_verbosity(), their_logging.is_progress_bar_enabled()
    their_logging.set_verbosity(logging.CRITICAL)
    their_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        their_logging.set_verbosity(level)
        if bars:
            their_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
