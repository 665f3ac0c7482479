"""LoRA: low-rank adapters on every linear map of the backbone, trained instead of it and merged into it at the end."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import torch

from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training.student import Student


def adapted(student: Student, rank: int, seed: int) -> None:
    """Give `student` adapters of `rank`, and freeze the rest of its backbone."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(seed)
    config = LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear")
    # It modifies the model in place, so the layers are still where the backbone looks for them.
    get_peft_model(student.model, config)


def merged(student: Student) -> TorchEncoder:
    """An encoder with a copy of the weights and the adapters merged into them."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    encoder = student.encoder()
    model: Any = copy.deepcopy(encoder.backbone.model)
    for name, module in list(model.named_modules()):
        if isinstance(module, BaseTunerLayer):
            tuned: Any = module
            tuned.merge()
            model.set_submodule(name, tuned.get_base_layer())
    model.__dict__.pop("peft_config", None)
    for parameter in model.parameters():
        parameter.requires_grad_(True)  # noqa: FBT003
    return replace(encoder, backbone=replace(encoder.backbone, model=model), head=copy.deepcopy(encoder.head))
