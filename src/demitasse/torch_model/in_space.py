"""A teacher on torch as an ordinary encoder whose vectors lie in the space of the model that it taught."""

from __future__ import annotations

from dataclasses import replace

import torch

from demitasse.encoding.teacher_space import TeacherSpace
from demitasse.torch_model.readout import Dense, as_modules, on_device
from demitasse.torch_model.torch_encoder import TorchEncoder


def in_space(teacher: TorchEncoder, space: TeacherSpace) -> TorchEncoder:
    """`teacher`, the only one of `space`, followed by the map into it; it reads texts as it did when it taught."""
    head = as_modules(teacher.readout(teacher.full.layers), teacher.state_dims, teacher.dims)
    weight, bias = space.part(0)
    mapped = on_device((*head, Dense(torch.from_numpy(weight), torch.from_numpy(bias.copy()))), teacher.device)
    prompts = dict(space.teachers[0].prompts)
    reader = replace(teacher.reader, prompts=prompts, default_prompt="sentence" if prompts.get("sentence") else None)
    return replace(teacher, head=mapped, exits={}, dims=space.dims, reader=reader, teacher_space=space)
