"""Texts at different depths in one pass through a torch model: each layer sees only the texts that still need it.

The model itself calls its layers. Before each call, a hook pools the texts that leave and gives the layer the front of
what it was given: token states, mask, positions, whatever it takes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from demitasse.encoding.mixed_depths import Axes, Front, axes_of, front_slice, fronts
from demitasse.torch_model.backbone import Backbone, forward, layer_input, layer_output

# Texts and tokens of two samples, all different, so that a shape says what its axes count.
PROBES = ((2, 3), (4, 5))
Pool = Callable[[Tensor, slice], Tensor]
Place = tuple[str | int, ...]  # of a tensor in the arguments of a layer: a name or number, then indices into tuples
LayerAxes = Sequence[Mapping[Place, Axes]]  # of each layer


def mixed_states(
    backbone: Backbone,
    axes: LayerAxes,
    inputs: Mapping[str, Tensor],
    drawn: Sequence[Front],
    pool: Pool,
) -> dict[int, Tensor]:
    """By depth, `pool` of the token states of the texts that leave there; `pool` is also given which texts they are.

    `axes` are not needed where all texts leave at one depth.
    """
    own = _Pass(backbone, axes, drawn, pool)
    hooks = [
        layer.register_forward_pre_hook(partial(own.before, front), with_kwargs=True)
        for layer, front in zip(backbone.layers, drawn, strict=False)
    ]
    if backbone.layers:
        hooks.append(backbone.layers[-1].register_forward_hook(own.after_last))
    try:
        last = forward(backbone.model, inputs)
    except _AllLeft:
        pass
    else:
        own.pooled[drawn[-1].depth] = pool(last, slice(drawn[-1].reaching))
    finally:
        for hook in hooks:
            hook.remove()
    return own.pooled


class _AllLeft(Exception):  # noqa: N818 - not an error: no text needs the next layer
    """Ends a forward pass at the input of a layer that should not run."""


class _Pass:
    """What happens between the layers in one pass of one thread; another may be running the same layers."""

    def __init__(self, backbone: Backbone, axes: LayerAxes, drawn: Sequence[Front], pool: Pool) -> None:
        self.pooled: dict[int, Tensor] = {}
        self._thread = threading.get_ident()
        self._tail = [backbone.model.get_submodule(name) for name in backbone.tail_names]
        self._axes, self._drawn, self._pool = axes, drawn, pool
        self._now: Front | None = None  # who is still there, once some have left

    def before(
        self, front: Front, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> Any:
        """A forward pre-hook of the layer after the depth of `front`.

        Another thread may call it while it is being registered or removed, and then without `kwargs`.
        """
        if threading.get_ident() != self._thread or kwargs is None:
            return None
        if front.staying < front.reaching:
            self._leave(front, layer_input(args, kwargs))
        if not front.staying:
            raise _AllLeft
        return None if self._now is None else _front(args, kwargs, self._axes[front.depth], self._now)

    def after_last(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """A forward hook of the last layer: what the model does next may want all texts, and is just its tail."""
        if threading.get_ident() == self._thread and self._now is not None:
            self._leave(self._drawn[-1], layer_output(output))
            raise _AllLeft

    def _leave(self, front: Front, hidden: Tensor) -> None:
        hidden = hidden[front.staying : front.reaching]
        for after in self._tail:
            hidden = after(hidden)
        self.pooled[front.depth] = self._pool(hidden, slice(front.staying, front.reaching))
        self._now = front


def _front(
    args: tuple[Any, ...], kwargs: dict[str, Any], axes: Mapping[Place, Axes], front: Front
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a layer for the texts of `front`; what was made for fewer texts is as it should be."""

    def narrowed(place: Place, value: Any) -> Any:
        if isinstance(value, Tensor):
            known = axes.get(place)
            return value if known is None else value[front_slice(known, front.staying, front.tokens)]
        if isinstance(value, tuple):
            return tuple(narrowed((*place, index), part) for index, part in enumerate(value))
        return value

    fewer = [narrowed((index,), value) for index, value in enumerate(args)]
    named = {name: narrowed((name,), value) for name, value in kwargs.items()}
    # Token states without gaps, as they are wherever no padding has left.
    if fewer:
        fewer[0] = fewer[0].contiguous()
    else:
        named["hidden_states"] = named["hidden_states"].contiguous()
    return tuple(fewer), named


def _tensors(place: Place, value: Any) -> Iterator[tuple[Place, Tensor]]:
    """The tensors in an argument, each with its place."""
    if isinstance(value, Tensor):
        yield place, value
    elif isinstance(value, tuple):
        for index, part in enumerate(value):
            yield from _tensors((*place, index), part)


def layer_axes(backbone: Backbone) -> LayerAxes | None:
    """What the axes of the arguments of each layer count; `None` where that is not clear, or a narrow pass goes wrong.

    Something between two layers, such as the convolution of DeBERTa, may want all texts: then texts of different
    depths cannot share a pass.
    """
    probes = [_probe(backbone, [*range(2, texts + 1), tokens]) for texts, tokens in PROBES]
    shapes = [_argument_shapes(backbone, inputs) for inputs in probes]
    layers = []
    for first, second in zip(*shapes, strict=True):
        if first.keys() != second.keys():
            return None
        found = {place: axes_of(shape, second[place], PROBES) for place, shape in first.items()}
        if any(axes is None for axes in found.values()):
            return None
        layers.append({place: axes for place, axes in found.items() if axes is not None})
    return layers if _agrees(backbone, layers) else None


def _probe(backbone: Backbone, lengths: Sequence[int]) -> dict[str, Tensor]:
    """Texts of these lengths, not all equal: without padding, models leave the mask out."""
    model = backbone.model
    vocabulary = len(model.get_input_embeddings().weight)  # type: ignore[arg-type]
    padding = getattr(model.config, "pad_token_id", None)
    usable = [token for token in range(min(64, vocabulary)) if token != padding]
    positions = torch.arange(max(lengths), device=model.device)
    ids = torch.tensor([usable[index % len(usable)] for index in range(len(lengths) * len(positions))])
    mask = positions < torch.tensor(lengths, device=model.device)[:, None]
    return {"input_ids": ids.to(model.device).reshape(mask.shape), "attention_mask": mask.long()}


def _argument_shapes(backbone: Backbone, inputs: Mapping[str, Tensor]) -> list[dict[Place, tuple[int, ...]]]:
    """For each layer, the shape of every tensor in its arguments."""
    seen: list[dict[Place, tuple[int, ...]]] = []

    def look(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        named: list[tuple[str | int, Any]] = [*enumerate(args), *kwargs.items()]
        found = [tensor for name, value in named for tensor in _tensors((name,), value)]
        seen.append({place: tuple(tensor.shape) for place, tensor in found})

    hooks = [layer.register_forward_pre_hook(look, with_kwargs=True) for layer in backbone.layers]
    try:
        with torch.inference_mode():
            forward(backbone.model, inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _agrees(backbone: Backbone, axes: LayerAxes) -> bool:
    """Whether texts that leave at every depth have the states that `states` gives them."""
    depths = list(range(backbone.depth, -1, -1))  # of the texts: each leaves at another depth, the longest first
    lengths = list(range(2, len(depths) + 2))
    inputs = _probe(backbone, lengths)
    with torch.inference_mode():
        whole = backbone.states(inputs, depths, lambda hidden: hidden)
        try:
            mixed = mixed_states(backbone, axes, inputs, fronts(depths, lengths), lambda hidden, texts: hidden)
        except Exception:  # whatever the model raises, it does not like to see texts leave
            return False
    # Half precision rounds differently for other shapes; a text that was given another's mask is far off.
    tolerance = 1e-3 if backbone.model.dtype is torch.float32 else 0.1
    for text, (depth, length) in enumerate(zip(depths, lengths, strict=True)):
        ours, theirs = mixed[depth][0, :length].float(), whole[depth][text, :length].float()
        if not bool((ours - theirs).norm() <= tolerance * theirs.norm()):
            return False
    return True
