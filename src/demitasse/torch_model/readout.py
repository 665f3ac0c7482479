"""From a state to the embedding: the steps after pooling, as sentence-transformers modules would apply them.

A readout is a tuple of `Normalize` and `Dense` steps. A model's own head is one; an exit is another:
`(NORMALIZE, Dense(weight, bias))`, that is y = W (x / |x|) + b.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from demitasse.encoding.exits import Exit
from demitasse.errors import FolderError

# Element-wise ones only: the first rows of the weights of the last `Dense` must give the first dims of its output.
_ACTIVATIONS = {
    name: getattr(nn, name)
    for name in ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid", "ELU", "LeakyReLU", "Softplus")
}
IDENTITY = "torch.nn.modules.linear.Identity"


@dataclass(frozen=True)
class Normalize:
    """Scale to unit length."""


NORMALIZE = Normalize()


@dataclass(frozen=True, eq=False)
class Dense:
    """A linear map and an activation, by the name sentence-transformers gives it."""

    weight: Tensor  # (out, in)
    bias: Tensor | None = None
    activation: str = IDENTITY

    def __post_init__(self) -> None:
        if not self.activation.startswith("torch.nn.") or self._activation_name not in _ACTIVATIONS:
            raise FolderError(
                f"a Dense module with the activation {self.activation!a:.60} cannot be cut; "
                f"use one of {', '.join(_ACTIVATIONS)}"
            )

    @property
    def _activation_name(self) -> str:
        return self.activation.rpartition(".")[2]

    def __call__(self, x: Tensor) -> Tensor:
        """The mapped vectors."""
        mapped: Tensor = _ACTIVATIONS[self._activation_name]()(functional.linear(x, self.weight, self.bias))
        return mapped

    def to(self, device: torch.device) -> Dense:
        """The same map on `device`."""
        return replace(self, weight=self.weight.to(device), bias=None if self.bias is None else self.bias.to(device))

    def first(self, dims: int) -> Dense:
        """The same map, giving only its first `dims`."""
        bias = None if self.bias is None else self.bias[:dims].clone()
        return replace(self, weight=self.weight[:dims].clone(), bias=bias)


Readout = tuple[Normalize | Dense, ...]


def exit_readout(exit_: Exit, device: torch.device) -> Readout:
    """An exit as a readout."""
    return on_device((NORMALIZE, Dense(torch.from_numpy(exit_.weight), torch.from_numpy(exit_.bias))), device)


def on_device(readout: Readout, device: torch.device) -> Readout:
    """The same steps on `device`."""
    return tuple(step.to(device) if isinstance(step, Dense) else step for step in readout)


def embed(readout: Readout, states: Tensor) -> Tensor:
    """The embeddings (B, D) of `states` (B, S) in fp32, not yet cut nor of unit length."""
    embeddings = states.float()
    for step in readout:
        embeddings = unit_length(embeddings) if isinstance(step, Normalize) else step(embeddings)
    return embeddings


def unit_length(vectors: Tensor) -> Tensor:
    """Each of `vectors` (B, D) scaled to unit length; zeros stay zeros."""
    return functional.normalize(vectors, dim=-1)


def output_dims(readout: Readout, state_dims: int) -> int:
    """How many dims come out for states of `state_dims`."""
    dense = [step for step in readout if isinstance(step, Dense)]
    return dense[-1].weight.shape[0] if dense else state_dims


def as_modules(readout: Readout, state_dims: int, dims: int) -> Readout:
    """Steps that give unit-length vectors of `dims`, for a library that applies modules one after another.

    Where there is no `Dense` to narrow, one that selects the first `dims` is added: the `truncate_dim` of
    sentence-transformers would cut after the last normalisation and leave vectors that are not of unit length.
    """
    steps = list(readout)
    while steps and isinstance(steps[-1], Normalize):
        steps.pop()
    if dims < output_dims(readout, state_dims):
        if steps:
            last = steps.pop()
            assert isinstance(last, Dense)
            steps.append(last.first(dims))
        else:
            steps.append(Dense(torch.from_numpy(np.eye(dims, state_dims, dtype=np.float32))))
    return (*steps, NORMALIZE)
