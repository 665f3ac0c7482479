"""The space of a model on torch: what its weights have in common with those of all its cuts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from torch import Tensor

from demitasse.encoding.exits import Exit
from demitasse.encoding.fingerprints import fingerprint
from demitasse.encoding.spaces import chained
from demitasse.torch_model.backbone import Backbone
from demitasse.torch_model.hf_weights import architecture_facts
from demitasse.torch_model.readout import Readout

_Named = Iterator[tuple[str, Any]]


def depth_fingerprints(
    backbone: Backbone, pooling: str, head: Readout, head_weights: list[tuple[str, Tensor]], exits: Mapping[int, Exit]
) -> tuple[str, ...]:
    """A fingerprint for each depth of a model, which its cuts have too.

    Weights count as float16, so that a model loaded in half precision shares the space of the same one in full.
    """
    layers = f"{backbone.layers_name}."
    weights = sorted(backbone.model.state_dict().items())
    shared = [(name, tensor) for name, tensor in weights if not name.startswith(layers)]
    steps = [getattr(step, "activation", "normalize") for step in head]
    base = fingerprint([pooling, steps, _facts(backbone)], _halves([*shared, *head_weights]))

    def at(depth: int) -> str:
        own = f"{layers}{depth - 1}."
        named = [(name.removeprefix(own), tensor) for name, tensor in weights if name.startswith(own)] if depth else []
        return fingerprint([depth], [*_halves(named), *_exit(exits.get(depth))])

    return chained(base, (at(depth) for depth in range(backbone.depth + 1)))


def _facts(backbone: Backbone) -> dict[str, Any]:
    """What the model computes, without what its config says of each layer and of how many there are."""
    config = backbone.model.config
    count = config.attribute_map.get("num_hidden_layers", "num_hidden_layers")
    facts = architecture_facts(backbone.model)
    return {name: value for name, value in facts.items() if name != count and not isinstance(value, list)}


def _halves(named: list[tuple[str, Tensor]]) -> _Named:
    """Weights by name, one at a time: a large model is never in memory twice."""
    for name, tensor in named:
        values = tensor.detach()
        with np.errstate(over="ignore"):
            yield name, (values.half() if values.is_floating_point() else values).cpu().numpy()


def _exit(exit_: Exit | None) -> _Named:
    """The first row of an exit: narrower cuts have it too, and no two exits share it."""
    if exit_ is not None:
        yield from (("exit", exit_.weight[:1]), ("exit bias", exit_.bias[:1]))
