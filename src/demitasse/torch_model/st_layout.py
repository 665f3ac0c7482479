"""The sentence-transformers folder: which modules it lists, read and written without that library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from demitasse.encoding.pooling import Pooling
from demitasse.errors import FolderError, reason
from demitasse.host.fields import Fields
from demitasse.host.json_files import read_json, write_json
from demitasse.torch_model.readout import NORMALIZE, Dense, Normalize, Readout

# The module names that all releases from 2 to 6 resolve.
_TYPE = "sentence_transformers.models."
_TANH = "torch.nn.modules.activation.Tanh"
_CURE = "copy or save the model again"
_MOST_MODULES = 100
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
    listed = _listed(folder)
    kinds = [kind for kind, _ in listed]
    if kinds[:2] != ["Transformer", "Pooling"] or not {*kinds[2:]} <= {"Dense", "Normalize"}:
        named = ", ".join(kind if kind.isidentifier() else ascii(kind) for kind in kinds)
        raise FolderError(f"{folder} has {named:.200}; only Transformer, Pooling, then Dense and Normalize can be cut")
    settings = _optional_fields(folder / "config_sentence_transformers.json")
    candidates = (_optional_fields(listed[0][1] / f"sentence_{name}_config.json") for name in _BERT_CONFIGS)
    reading = next((config for config in candidates if config.names()), settings.empty())
    prompts = settings.inside("prompts") if settings.has("prompts") else settings.empty()
    return Layout(
        transformer=listed[0][1],
        pooling=_read_pooling(listed[1][1] / "config.json"),
        head=tuple(NORMALIZE if kind == "Normalize" else _read_dense(path) for kind, path in listed[2:]),
        max_tokens=reading.whole("max_seq_length", least=1) if reading.has("max_seq_length") else None,
        lowercase=reading.flag("do_lower_case") if reading.has("do_lower_case") else False,
        prompts={name: prompts.text(name) for name in prompts.names() if prompts.has(name) and prompts.text(name)},
        default_prompt=settings.text("default_prompt_name") if settings.has("default_prompt_name") else None,
        dims=settings.whole("truncate_dim", least=1) if settings.has("truncate_dim") else None,
    )


def _listed(folder: Path) -> list[tuple[str, Path]]:
    """The kind of each module, and its folder."""
    path = folder / "modules.json"
    whole = Fields({"modules": read_json(path)}, path, _CURE)
    if len(whole.each("modules")) > _MOST_MODULES:
        raise whole.problem(f"lists more than {_MOST_MODULES} modules")
    return [
        (module.text("type").rpartition(".")[2], _inside(folder, module.text("path")))
        for module in whole.each("modules")
    ]


def _inside(folder: Path, path: str) -> Path:
    """The module at `path` of `folder`; one outside of it is refused, so that a model folder reads only itself."""
    parts = PureWindowsPath(path)  # which knows what is absolute on POSIX, too
    if parts.anchor or ".." in parts.parts or not path.isprintable() or len(path) > 200:
        raise FolderError(
            f"{folder / 'modules.json'} names {path!a:.200}, which is outside the folder; save the model again"
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
    config = Fields(read_json(folder / "config.json"), folder / "config.json", _CURE)
    given = config.text("module_input_name") if config.has("module_input_name") else "sentence_embedding"
    if (config.has("use_residual") and config.plain("use_residual")) or given != "sentence_embedding":
        raise FolderError(f"the Dense module in {folder} has a residual or reads token states, so it cannot be cut")
    tensors = read_tensors(folder / "model.safetensors")
    activation = config.text("activation_function") if config.has("activation_function") else _TANH
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
        raise FolderError(
            f"{path} is not a complete safetensors file ({reason(problem)}); copy or save it again"
        ) from problem


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write `tensors` as a safetensors file."""
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)


def _optional_fields(path: Path) -> Fields:
    value = read_json(path) if path.is_file() else {}
    return Fields(value if isinstance(value, dict) else {}, path, _CURE)


def _read_pooling(path: Path) -> Pooling:
    config = Fields(read_json(path), path, _CURE)
    mode = config.plain("pooling_mode") if config.has("pooling_mode") else ""
    if mode and not isinstance(mode, str):
        config.texts("pooling_mode")
    return Pooling.from_config(config.all())
