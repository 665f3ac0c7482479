"""The sentence-transformers folder: which modules it lists, read and written without that library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from demitasse.encoding.pooling import Pooling
from demitasse.errors import FolderError
from demitasse.host.json_files import read_json, write_json
from demitasse.torch_model.readout import NORMALIZE, Dense, Normalize, Readout

# The module names that all releases from 2 to 6 resolve.
_TYPE = "sentence_transformers.models."
_BERT_CONFIGS = ("bert", "roberta", "distilbert", "camembert", "xlm-roberta", "xlnet")


@dataclass(frozen=True)
class Layout:
    """What a sentence-transformers folder says besides the transformer itself."""

    transformer: Path  # the folder of the transformer and its tokenizer
    pooling: Pooling = field(default_factory=Pooling)
    head: Readout = ()
    max_tokens: int | None = None
    lowercase: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    dims: int | None = None  # `truncate_dim`


def read_layout(folder: Path) -> Layout:
    """The layout of `folder`; a plain transformers folder is one transformer with mean pooling."""
    if not (folder / "modules.json").is_file():
        return Layout(folder)
    modules = read_json(folder / "modules.json")
    try:
        listed = [(str(module["type"]).rpartition(".")[2], _inside(folder, module["path"])) for module in modules]
    except (TypeError, KeyError) as problem:
        raise FolderError(
            f"{folder / 'modules.json'} is not a list of modules with a type and a path; save the model again"
        ) from problem
    kinds = [kind for kind, _ in listed]
    if kinds[:2] != ["Transformer", "Pooling"] or not {*kinds[2:]} <= {"Dense", "Normalize"}:
        raise FolderError(
            f"{folder} has {', '.join(kinds)}; only Transformer, Pooling, then Dense and Normalize can be cut"
        )
    settings = _optional_json(folder / "config_sentence_transformers.json")
    candidates = (_optional_json(listed[0][1] / f"sentence_{name}_config.json") for name in _BERT_CONFIGS)
    reading = next((config for config in candidates if config), {})
    return Layout(
        transformer=listed[0][1],
        pooling=Pooling.from_config(read_json(listed[1][1] / "config.json")),
        head=tuple(NORMALIZE if kind == "Normalize" else _read_dense(path) for kind, path in listed[2:]),
        max_tokens=reading.get("max_seq_length"),
        lowercase=bool(reading.get("do_lower_case", False)),
        prompts={name: text for name, text in (settings.get("prompts") or {}).items() if text},
        default_prompt=settings.get("default_prompt_name"),
        dims=settings.get("truncate_dim"),
    )


def _inside(folder: Path, path: str) -> Path:
    """The module at `path` of `folder`; one outside of it is refused, so that a model folder reads only itself."""
    parts = PureWindowsPath(path)  # which knows what is absolute on POSIX, too
    if parts.anchor or ".." in parts.parts:
        raise FolderError(
            f"{folder / 'modules.json'} names {path!r}, which is outside the folder; save the model again"
        )
    return folder / path


def write_layout(folder: Path, layout: Layout, width: int) -> None:
    """Write everything of `layout` but the transformer and the tokenizer into `folder`."""
    steps: list[tuple[str, Readout]] = [("Transformer", ()), ("Pooling", ())]
    steps += [("Normalize" if isinstance(step, Normalize) else "Dense", (step,)) for step in layout.head]
    modules = []
    for index, (kind, step) in enumerate(steps):
        path = f"{index}_{kind}" if index else ""
        modules.append({"idx": index, "name": str(index), "path": path, "type": f"{_TYPE}{kind}"})
        if path:
            (folder / path).mkdir()
        if kind == "Pooling":
            write_json(folder / path / "config.json", layout.pooling.to_config(width))
        elif kind == "Normalize":
            # Git and model hubs drop empty folders; this is what sentence-transformers 6 writes there too.
            names = dict.fromkeys(("module_input_name", "module_output_name"), "sentence_embedding")
            write_json(folder / path / "config.json", names)
        elif kind == "Dense":
            assert isinstance(step[0], Dense)
            _write_dense(folder / path, step[0])
    write_json(folder / "modules.json", modules)
    reading = {"max_seq_length": layout.max_tokens, "do_lower_case": layout.lowercase}
    write_json(folder / "sentence_bert_config.json", reading)
    settings = {
        "prompts": dict(layout.prompts),
        "default_prompt_name": layout.default_prompt,
        "similarity_fn_name": "cosine",
    }
    write_json(folder / "config_sentence_transformers.json", settings)


def _read_dense(folder: Path) -> Dense:
    config = read_json(folder / "config.json")
    if config.get("use_residual") or config.get("module_input_name", "sentence_embedding") != "sentence_embedding":
        raise FolderError(f"the Dense module in {folder} has a residual or reads token states, so it cannot be cut")
    tensors = read_tensors(folder / "model.safetensors")
    activation = config.get("activation_function", "torch.nn.modules.activation.Tanh")
    try:
        return Dense(tensors["linear.weight"].float(), _float(tensors.get("linear.bias")), activation)
    except KeyError as problem:
        raise FolderError(f"{folder / 'model.safetensors'} has no linear.weight; save the model again") from problem


def _write_dense(folder: Path, dense: Dense) -> None:
    out_features, in_features = dense.weight.shape
    config = {
        "in_features": in_features,
        "out_features": out_features,
        "bias": dense.bias is not None,
        "activation_function": dense.activation,
    }
    write_json(folder / "config.json", config)
    tensors = {"linear.weight": dense.weight}
    if dense.bias is not None:
        tensors["linear.bias"] = dense.bias
    write_tensors(folder / "model.safetensors", tensors)


def _float(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else tensor.float()


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file."""
    if not path.is_file():
        raise FolderError(f"{path} is missing; save the model again as safetensors (pickled weights are never read)")
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as problem:
        raise FolderError(f"{path} is not a complete safetensors file ({problem}); copy or save it again") from problem


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write `tensors` as a safetensors file."""
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)


def _optional_json(path: Path) -> dict[str, Any]:
    value = read_json(path) if path.is_file() else {}
    return value if isinstance(value, dict) else {}
