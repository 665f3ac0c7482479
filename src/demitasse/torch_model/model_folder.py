"""Model folders on torch: `read` and `save`.

A demitasse folder is a sentence-transformers folder plus two files:

    config.json, model.safetensors, tokenizer.json, …   the transformer, cut to its layers
    modules.json, 1_Pooling/, 2_Dense/, …               what sentence-transformers applies, cut to its dims
    exits.safetensors                                   `K.weight` and `K.bias` of the exit at depth K; `head.I.weight`
                                                        and `head.I.bias` of the steps other depths use;
                                                        `space.weight` and `space.bias` of the map from its teachers
    demitasse.json                                      what the folder is (see encoding/manifest.py)
"""

from __future__ import annotations

import copy
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file

from demitasse.cut import usual_dims
from demitasse.encoding.exits import Exit
from demitasse.encoding.listed_files import ListedFiles
from demitasse.encoding.manifest import MANIFEST, Manifest, own_files
from demitasse.encoding.reader import Reader
from demitasse.encoding.teacher_space import space_of
from demitasse.encoding.vectors import Vectors
from demitasse.errors import FolderError
from demitasse.host.atomic import new_folder
from demitasse.host.json_files import read_json, write_json
from demitasse.torch_model.backbone import find_backbone
from demitasse.torch_model.devices import choose_device, choose_dtype
from demitasse.torch_model.hf_tokenizer import batch_tokenizer, empty_id, tokenizer_at
from demitasse.torch_model.hf_weights import read_model, write_model
from demitasse.torch_model.readout import NORMALIZE, Dense, Readout, as_modules, on_device, output_dims
from demitasse.torch_model.st_layout import Layout, read_layout, read_tensors, write_layout
from demitasse.torch_model.torch_encoder import TorchEncoder

_EXITS = "exits.safetensors"
_SAMPLE = ("", "a small cup", "One model, cut to any size: keep the first layers and the first dimensions.")


def read(folder: Path, device: str | None, dtype: str | None, name: str) -> TorchEncoder:
    """The encoder in `folder`, to run on torch; `name` is recorded as its source if the folder names none.

    >>> read(folder, "cpu", None, "tiny")
    Encoder(3x32, BertModel, mean, cpu)
    """
    manifest = Manifest.read(folder)
    listed = ListedFiles(manifest).checked() if manifest is not None and manifest.lists_files else nullcontext()
    with listed:
        return replace(_read(folder, manifest, choose_device(device), dtype, name), folder=folder)


def _read(folder: Path, manifest: Manifest | None, chosen: torch.device, dtype: str | None, name: str) -> TorchEncoder:
    layout = read_layout(folder)
    backbone = find_backbone(read_model(str(layout.transformer), choose_dtype(dtype, chosen), chosen))
    tokenizer = tokenizer_at(str(layout.transformer))
    max_tokens = _max_tokens(layout, tokenizer.model_max_length, backbone.model)
    reader = Reader(
        batch_tokenizer(tokenizer, max_tokens),
        max_tokens,
        layout.prompts,
        layout.default_prompt,
        layout.lowercase,
        pad_id=tokenizer.pad_token_id or 0,
        empty_id=empty_id(tokenizer),
        source=tokenizer,
    )
    state_dims = backbone.width * len(layout.pooling.modes)
    if manifest is None:
        dims = min(layout.dims or 1 << 30, output_dims(layout.head, state_dims))
        head, record = on_device(layout.head, chosen), {"source": {"name": name}}
        encoder = TorchEncoder(backbone, reader, layout.pooling, dims, head, record=record)
    else:
        encoder = _elastic(manifest, TorchEncoder(backbone, reader, layout.pooling, state_dims))
    _check_widths(folder, encoder)
    encoder.check_weights()
    return encoder


def save(encoder: TorchEncoder, folder: str | Path, *, force: bool = False) -> None:
    """Write `encoder` to `folder`, completely or not at all.

    What was written is loaded again and must give the same vectors before it replaces the folder.

    >>> save(encoder.cut(layers=1), out)
    >>> read(out, "cpu", None, "")
    Encoder(1x32, BertModel, mean, cpu)
    """
    target = Path(folder)
    encoder.check_weights()
    backbone = encoder.backbone
    if backbone.depth == 0 and not backbone.runs_empty:
        raise FolderError(
            f"a {backbone.name} of 0 layers cannot be saved, since transformers cannot run one; keep at least 1 layer"
        )
    with new_folder(target, own_files, encoder.folder, force=force) as aside:
        _write_transformer(encoder, aside)
        head = as_modules(encoder.readout(encoder.full.layers), encoder.state_dims, encoder.dims)
        reader = encoder.reader
        layout = Layout(
            aside,
            encoder.pooling,
            head,
            reader.max_tokens,
            reader.lowercase,
            reader.prompts,
            reader.default_prompt,
        )
        write_layout(aside, layout, backbone.width)
        save_file(_exit_tensors(encoder), aside / _EXITS)
        activations = [step.activation if isinstance(step, Dense) else None for step in encoder.head]
        Manifest.of_torch_model(aside, encoder, activations).with_files().write()
        _check_copy(encoder, aside)


def _write_transformer(encoder: TorchEncoder, folder: Path) -> None:
    model, tokenizer = encoder.backbone.model, copy.deepcopy(encoder.reader.source)
    write_model(model, str(folder))
    # Servers such as vLLM cut dims only for models whose config.json lists them.
    config = read_json(folder / "config.json")
    write_json(folder / "config.json", {**config, "matryoshka_dimensions": usual_dims(encoder.dims)})
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:  # where this encoder truncates is not part of the tokenizer
        backend.no_truncation()
        backend.no_padding()
    tokenizer.save_pretrained(str(folder))


def _exit_tensors(encoder: TorchEncoder) -> dict[str, Any]:
    tensors: dict[str, Any] = {}
    for depth, exit_ in encoder.exits.items():
        tensors[f"{depth}.weight"], tensors[f"{depth}.bias"] = exit_.weight, exit_.bias
    for index, step in enumerate(encoder.head):
        if isinstance(step, Dense):
            tensors[f"head.{index}.weight"] = np.ascontiguousarray(step.weight.cpu().numpy())
            if step.bias is not None:
                tensors[f"head.{index}.bias"] = np.ascontiguousarray(step.bias.cpu().numpy())
    if encoder.teacher_space is not None:
        tensors["space.weight"], tensors["space.bias"] = encoder.teacher_space.weight, encoder.teacher_space.bias
    return tensors


def _check_copy(encoder: TorchEncoder, folder: Path) -> None:
    dtype = str(encoder.backbone.model.dtype).removeprefix("torch.")
    again = read(folder, str(encoder.device), dtype, "")
    difference = float(np.abs(again.encode(_SAMPLE) - encoder.encode(_SAMPLE)).max())
    if again.full != encoder.full or not difference < 1e-3:
        raise FolderError(
            f"the saved {encoder.backbone.name} gives different vectors than the one in memory (by {difference:.1e}), "
            "so nothing was written; this architecture cannot be cut to this size"
        )


def _elastic(manifest: Manifest, plain: TorchEncoder) -> TorchEncoder:
    """`plain` with the exits, the head and the dims of a demitasse folder."""
    manifest.check()
    folder, full = manifest.folder, manifest.full
    tensors = {name: tensor.float() for name, tensor in read_tensors(folder / _EXITS).items()}
    try:
        exits = {
            depth: Exit(*(tensors[f"{depth}.{part}"].numpy() for part in ("weight", "bias")))
            for depth in manifest.exits
        }
        head: Readout = tuple(
            NORMALIZE
            if activation is None
            else Dense(tensors[f"head.{index}.weight"], tensors.get(f"head.{index}.bias"), activation)
            for index, activation in enumerate(manifest.head)
        )
        taught = manifest.teachers
        space = space_of(taught, *_space_parts(tensors), folder / _EXITS) if taught else None
    except KeyError as problem:
        raise FolderError(
            f"{folder / MANIFEST} and {_EXITS} do not agree ({problem!r}); save the model again"
        ) from problem
    if full.layers != plain.full.layers:
        raise FolderError(
            f"{folder / MANIFEST} says {full.layers} layers and config.json {plain.full.layers}; save the model again"
        )
    head = on_device(head, plain.device)
    return TorchEncoder(
        plain.backbone, plain.reader, plain.pooling, full.dims, head, exits, manifest.record, teacher_space=space
    )


def _space_parts(tensors: dict[str, torch.Tensor]) -> tuple[Vectors, Vectors]:
    return tensors["space.weight"].numpy(), tensors["space.bias"].numpy()


def _check_widths(folder: Path, encoder: TorchEncoder) -> None:
    """Refuse steps after the transformer whose weights do not fit together."""
    readouts = [encoder.readout(depth) for depth in range(encoder.full.layers + 1)]
    for readout in {id(readout): readout for readout in readouts}.values():
        width = encoder.state_dims
        for step in readout:
            if isinstance(step, Dense):
                if step.weight.ndim != 2 or step.weight.shape[1] != width:
                    raise FolderError(
                        f"{folder} has a Dense or exit of shape {tuple(step.weight.shape)} after {width} dims; "
                        "save the model again"
                    )
                width = step.weight.shape[0]
        if width < encoder.dims:
            raise FolderError(f"{folder} says {encoder.dims} dims, but {width} come out; save the model again")


def _max_tokens(layout: Layout, tokenizer_limit: float, model: Any) -> int:
    """How many tokens the model takes: the smallest of what the folder, the tokenizer and the positions allow."""
    positions = getattr(model.config, "max_position_embeddings", None)
    padding_index = getattr(getattr(model, "embeddings", None), "padding_idx", None)
    if positions and padding_index is not None:
        # RoBERTa and similar models number positions from after the padding index, so the first are never used.
        positions -= padding_index + 1
    limits = [layout.max_tokens, int(min(tokenizer_limit, 1 << 30)), positions]
    return min(limit for limit in limits if isinstance(limit, int) and limit > 0)
