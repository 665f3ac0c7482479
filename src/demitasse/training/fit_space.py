"""The space of an aligned model, and the exits into it, both in closed form."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from demitasse.encoding.exits import Exit, Moments, choose_exit
from demitasse.encoding.teacher_space import SpaceTeacher, TeacherSpace, turned
from demitasse.encoding.vectors import Vectors, unit_length
from demitasse.host.progress import Advance
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training import refine_exits as refining
from demitasse.training.fit_exits import HELD_OUT_EVERY, HELD_OUT_ROWS, WINDOW

Windows = Iterator[tuple[list[str], str | None, Vectors]]  # texts, the name of their prompt, their vectors in the space


def mean_of(joined: Vectors) -> Vectors:
    """The mean of joined vectors (N, T)."""
    return np.asarray(joined.mean(0, dtype=np.float64), np.float32)


def fit_space(  # noqa: PLR0913 - what, of what, and how
    teachers: tuple[SpaceTeacher, ...],
    joined: Vectors,
    dims: int,
    *,
    centre: bool,
    order: bool,
    seed: int,
    device: torch.device,
    advance: Advance,
) -> TeacherSpace:
    """The space of at most `dims` that keeps most of the teachers' joined vectors (N, T).

    With `order`, it is rotated so that its first dims keep most of the similarities; else the first hold most of the
    vectors.
    """
    moments = np.zeros((joined.shape[1], joined.shape[1]))
    for begin in range(0, len(joined), WINDOW):
        part = joined[begin : begin + WINDOW]
        moments += part.T @ part  # each in fp32, their sum in fp64
    mean = mean_of(joined).astype(np.float64) if centre else None
    weight, bias = turned(moments / len(joined), mean, min(dims, joined.shape[1]))
    space = TeacherSpace(teachers, weight, bias)
    if not order:
        return space
    rotation = refining.learn_order(unit_length(space(joined)), seed, advance, device)
    return TeacherSpace(teachers, np.ascontiguousarray(rotation.T @ weight), np.asarray(bias @ rotation, np.float32))


def fit_space_exits(encoder: TorchEncoder, windows: Windows) -> dict[int, Exit]:
    """An exit at every depth of `encoder`, the last one too, into the space whose vectors `windows` have."""
    layers, moments, held = encoder.full.layers, dict[int, Moments](), list[tuple[dict[int, Vectors], Vectors]]()
    count = 0
    for texts, prompt, targets in windows:
        states = {
            depth: state.cpu().numpy()
            for depth, state in encoder.states(texts, range(layers + 1), prompt_name=prompt).items()
        }
        away = (np.arange(count, count + len(texts)) % HELD_OUT_EVERY) == HELD_OUT_EVERY - 1
        count += len(texts)
        if sum(len(kept) for _, kept in held) < HELD_OUT_ROWS:
            held.append(({depth: state[away] for depth, state in states.items()}, targets[away]))
        for depth, state in states.items():
            moments.setdefault(depth, Moments(encoder.state_dims, targets.shape[1])).add(state[~away], targets[~away])
    held_targets = np.concatenate([kept for _, kept in held])
    return {
        depth: choose_exit(own, np.concatenate([states[depth] for states, _ in held]), held_targets)[0]
        for depth, own in sorted(moments.items())
    }
