"""Vectors as torch tensors, for who asks for them; the only file here that imports torch, and itself imported late."""

from __future__ import annotations

import torch

from demitasse.encoding.vectors import Vectors


def as_tensor(vectors: Vectors) -> torch.Tensor:
    """`vectors` as a tensor on the CPU that shares their memory."""
    return torch.from_numpy(vectors)
