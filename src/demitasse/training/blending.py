"""Weights interpolated between before and after tuning: most of the gain, little of the forgetting.

Tuning on one kind of text costs quality on others. On the straight line between the two models, most of the gain comes
before most of the loss (Wortsman et al. 2022, WiSE-FT, arXiv 2109.01903).
"""

from __future__ import annotations

import copy
from dataclasses import replace

import torch

from demitasse.torch_model.readout import Dense, Normalize
from demitasse.torch_model.torch_encoder import TorchEncoder


def blended(before: TorchEncoder, after: TorchEncoder, share: float) -> TorchEncoder:
    """A copy of `after` with `share` of its weights and the rest from `before`; exits are those of `after`."""
    old, model = before.backbone.model.state_dict(), copy.deepcopy(after.backbone.model)
    with torch.no_grad():
        for name, weight in model.state_dict().items():
            if weight.is_floating_point():
                weight.lerp_(old[name].to(weight), 1 - share)
        head = tuple(_step(was, now, share) for was, now in zip(before.head, after.head, strict=True))
    return replace(after, backbone=replace(after.backbone, model=model), head=head)


def _step(before: Dense | Normalize, after: Dense | Normalize, share: float) -> Dense | Normalize:
    if not (isinstance(before, Dense) and isinstance(after, Dense)):
        return after
    weight = after.weight.lerp(before.weight.to(after.weight), 1 - share)
    if after.bias is None or before.bias is None:
        return replace(after, weight=weight)
    return replace(after, weight=weight, bias=after.bias.lerp(before.bias.to(after.bias), 1 - share))
