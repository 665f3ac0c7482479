"""An encoder as ONNX graphs: blocks (embeddings, each layer, each exit), or one graph of one cut.

Blocks pass values to one another by name. The embeddings block outputs `hidden` and whatever else the layers are given
(`given_0`, `given_1`, …: the attention mask, rotary angles, a position bias). A layer block takes `hidden` and those of
them that it uses, and outputs `next_hidden`. An exit block takes `hidden`, and `attention_mask` and `pooled_mask` (the
real tokens, less the prompt's where pooling leaves them out) if it uses them, and outputs `embedding`.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import onnx
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.utils import _pytree

from demitasse.encoding.pooling import Pooling
from demitasse.errors import BackboneError, reason
from demitasse.exporting.attention_fusion import drop_unneeded, fuse_attention
from demitasse.torch_model.backbone import forward, layer_input, layer_output
from demitasse.torch_model.readout import Readout, embed, unit_length
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.torch_model.torch_pooling import pool, pool_over

OPSET = 23  # the first with one operator for attention
_SIZES = ((2, 7), (3, 11))  # texts and tokens of two samples: all different, so that a shape identifies its axes
Values = dict[str, Tensor]


def block_graphs(encoder: TorchEncoder) -> Iterator[tuple[str, onnx.ModelProto]]:
    """The blocks of `encoder` by name, each as soon as it is traced: `layer_1` …, `exit_0` …, `embeddings`."""
    model = _fp32_copy(encoder)
    layers = model.get_submodule(encoder.backbone.layers_name)
    assert isinstance(layers, nn.ModuleList)
    tail = [model.get_submodule(name) for name in encoder.backbone.tail_names]
    opening = _Opening(model, layers, tail)
    samples = [_sample(*sizes) for sizes in _SIZES]
    embeddings = _exported("the embeddings", opening, samples)
    for sample in samples:
        sample.update(opening.values(**sample))
    calls = opening.calls
    _name_outputs(embeddings, ["hidden", *(f"given_{index}" for index in range(len(calls.given)))])
    wanted = {"hidden"}
    for depth, (layer, call) in enumerate(zip(layers, calls.of_layer, strict=True), 1):
        inputs = [_only(sample, ["hidden", *call.given]) for sample in samples]
        graph = _exported(f"layer {depth}", _Layer(layer, call), inputs)
        _name_outputs(graph, ["next_hidden"])
        wanted |= _drop_unused_inputs(graph)
        yield f"layer_{depth}", graph
    for depth in range(len(layers) + 1):
        inputs = [
            {**_only(sample, ["hidden", "attention_mask"]), "pooled_mask": sample["attention_mask"]}
            for sample in samples
        ]
        graph = _exported(f"the exit at depth {depth}", _Exit(tail, encoder.pooling, encoder.readout(depth)), inputs)
        _name_outputs(graph, ["embedding"])
        _drop_unused_inputs(graph)
        yield f"exit_{depth}", graph
    _keep_outputs(embeddings, wanted)
    yield "embeddings", embeddings


def whole_graph(encoder: TorchEncoder) -> onnx.ModelProto:
    """One graph of `encoder` at its cut: `input_ids`, `attention_mask` to `sentence_embedding`, of unit length."""
    whole = _Whole(_fp32_copy(encoder), encoder.pooling, encoder.readout(encoder.full.layers), encoder.dims)
    graph = _exported(f"the {encoder.architecture}", whole, [_sample(*sizes) for sizes in _SIZES])
    _name_outputs(graph, ["sentence_embedding"])
    return graph


@dataclass(frozen=True)
class _Given:
    """Stands for a tensor in the arguments of a layer."""

    name: str


@dataclass(frozen=True)
class _Call:
    """How the model calls a layer: its arguments, each tensor in them replaced by its name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    given: list[str]

    def arguments(self, values: Mapping[str, Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        leaves, shape = _pytree.tree_flatten((self.args, self.kwargs))
        filled = [values[leaf.name] if isinstance(leaf, _Given) else leaf for leaf in leaves]
        args, kwargs = _pytree.tree_unflatten(filled, shape)
        return args, kwargs


class _Calls:
    """How the model calls its layers, recorded during a pass; not part of any module, whose state torch guards."""

    def __init__(self) -> None:
        self.of_layer: list[_Call] = []
        self.hidden: list[Tensor] = []
        self.given: list[Tensor] = []  # every other tensor, once

    def record(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A forward pre-hook."""
        hidden = layer_input(args, kwargs)
        self.hidden.append(hidden)
        leaves, shape = _pytree.tree_flatten((args, kwargs))
        named = [_Given(self._name(leaf, hidden)) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        args, kwargs = _pytree.tree_unflatten(named, shape)
        given = {leaf.name for leaf in named if isinstance(leaf, _Given)} - {"hidden"}
        self.of_layer.append(_Call(args, kwargs, sorted(given)))

    def record_end(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A forward pre-hook of what follows the layers."""
        self.hidden.append(layer_input(args, kwargs))

    def _name(self, tensor: Tensor, hidden: Tensor) -> str:
        if tensor is hidden:
            return "hidden"
        known = next((index for index, other in enumerate(self.given) if other is tensor), len(self.given))
        if known == len(self.given):
            self.given.append(tensor)
        return f"given_{known}"


class _Opening(nn.Module):
    """Everything before the layers: `hidden`, and each other tensor that some layer is given, once.

    The layers run too, since some models read attributes from them; no output depends on what they compute, so their
    work is not part of the exported graph. Without any layer, `hidden` is what the final norm is given, or the output.
    """

    def __init__(self, model: nn.Module, layers: nn.ModuleList, tail: Sequence[nn.Module]) -> None:
        super().__init__()
        self.model = model
        self._ends = () if layers else tuple(tail[:1])
        self._layers = tuple(layers)  # a tuple, so that they are registered only once, in `model`
        self._last = [_Calls()]

    @property
    def calls(self) -> _Calls:
        """What was recorded during the last pass."""
        return self._last[0]

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        calls = self._last[0] = _Calls()
        hooks = [layer.register_forward_pre_hook(calls.record, with_kwargs=True) for layer in self._layers]
        hooks += [end.register_forward_pre_hook(calls.record_end, with_kwargs=True) for end in self._ends]
        try:
            output = forward(self.model, {"input_ids": input_ids, "attention_mask": attention_mask})
        finally:
            for hook in hooks:
                hook.remove()
        return (calls.hidden[0] if calls.hidden else output, *calls.given)

    def values(self, input_ids: Tensor, attention_mask: Tensor) -> Values:
        """Its outputs by name."""
        with torch.no_grad():
            hidden, *given = self(input_ids, attention_mask)
        return {"hidden": hidden, **{f"given_{index}": tensor for index, tensor in enumerate(given)}}


class _Layer(nn.Module):
    def __init__(self, layer: nn.Module, call: _Call) -> None:
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, hidden: Tensor, *given: Tensor) -> Tensor:
        args, kwargs = self.call.arguments({"hidden": hidden, **dict(zip(self.call.given, given, strict=True))})
        out: Tensor = layer_output(self.layer(*args, **kwargs))
        return out


class _Exit(nn.Module):
    def __init__(self, tail: Sequence[nn.Module], pooling: Pooling, readout: Readout) -> None:
        super().__init__()
        self.tail, self.pooling, self.readout = nn.ModuleList(tail), pooling, readout

    def forward(self, hidden: Tensor, attention_mask: Tensor, pooled_mask: Tensor) -> Tensor:
        for module in self.tail:
            hidden = module(hidden)
        return embed(self.readout, pool_over(self.pooling, hidden, pooled_mask, attention_mask))


class _Whole(nn.Module):
    def __init__(self, model: nn.Module, pooling: Pooling, readout: Readout, dims: int) -> None:
        super().__init__()
        self.model, self.pooling, self.readout, self.dims = model, pooling, readout, dims

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden = forward(self.model, {"input_ids": input_ids, "attention_mask": attention_mask})
        return unit_length(embed(self.readout, pool(self.pooling, hidden, attention_mask))[:, : self.dims])


def _fp32_copy(encoder: TorchEncoder) -> nn.Module:
    """The model in float32 on the CPU: itself if that is what it is."""
    model: nn.Module = encoder.backbone.model
    if encoder.backbone.model.dtype is torch.float32 and encoder.device.type == "cpu":
        return model
    return copy.deepcopy(model).to(device="cpu", dtype=torch.float32)


def _sample(batch: int, tokens: int) -> Values:
    ids = torch.arange(5, 5 + batch * tokens).reshape(batch, tokens) % 50
    mask = torch.ones_like(ids)
    mask[0, tokens - 2 :] = 0  # with padding, or models leave the attention mask out
    return {"input_ids": ids, "attention_mask": mask}


def _only(values: Values, names: Sequence[str]) -> Values:
    return {name: values[name] for name in names}


def _exported(what: str, module: nn.Module, samples: Sequence[Values]) -> onnx.ModelProto:
    """`module` as a graph whose inputs are named as in `samples`; axes that differ between the samples are dynamic."""
    first, second = samples
    axes = {
        name: {axis: Dim.DYNAMIC for axis, size in enumerate(tensor.shape) if second[name].shape[axis] != size}
        for name, tensor in first.items()
    }
    shapes: Any = tuple(axes.values())
    if isinstance(module, _Layer):  # hidden, *given
        shapes = (shapes[0], shapes[1:])
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                module.eval(),
                tuple(first.values()),
                input_names=list(first),
                dynamic_shapes=shapes,
                opset_version=OPSET,
                dynamo=True,  # the older exporter gives wrong vectors with transformers 5
                external_data=False,
                verbose=False,
            )
    except Exception as problem:  # torch.export raises all kinds of errors, at great length
        raise BackboneError(
            f"{what} cannot be exported to ONNX ({reason(problem)}); use the sentence-transformers format"
        ) from problem
    assert program is not None
    model = program.model_proto
    fuse_attention(model)
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's warnings about exporting."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _name_outputs(model: onnx.ModelProto, names: Sequence[str]) -> None:
    """Give the graph's outputs these names."""
    graph = model.graph
    assert len(names) == len(graph.output), "as many outputs as names"
    inputs = {value.name for value in graph.input} | {value.name for value in graph.initializer}
    outputs = [output.name for output in graph.output]
    for name in set(names) - set(outputs):
        _rename(graph, name, f"inner_{name}")  # torch may already use these names
    for output, name in zip(graph.output, names, strict=True):
        if output.name in inputs or outputs.count(output.name) > 1:
            graph.node.append(onnx.helper.make_node("Identity", [output.name], [name]))
        else:
            _rename(graph, output.name, name)
        output.name = name


def _rename(graph: onnx.GraphProto, old: str, new: str) -> None:
    for node in graph.node:
        for values in (node.input, node.output):
            for index, value in enumerate(values):
                if value == old:
                    values[index] = new


def _drop_unused_inputs(model: onnx.ModelProto) -> set[str]:
    """Remove the inputs that no node reads; returns the names of the others."""
    read = {name for node in model.graph.node for name in node.input}
    for value in [value for value in model.graph.input if value.name not in read]:
        model.graph.input.remove(value)
    return {value.name for value in model.graph.input}


def _keep_outputs(model: onnx.ModelProto, names: set[str]) -> None:
    """Remove all other outputs, and the nodes and weights that only they need."""
    graph = model.graph
    for value in [value for value in graph.output if value.name not in names]:
        graph.output.remove(value)
    drop_unneeded(graph)
