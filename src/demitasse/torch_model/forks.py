"""torch in a process that was forked from one that used it."""

from __future__ import annotations

import os

import torch

from demitasse.errors import DeviceError

_first: int | None = None  # the process that was the first to use torch


def mind_fork(device: torch.device) -> None:
    """Make torch usable in a forked process: on the CPU with one thread; on a GPU not at all.

    The threads that torch computes with are not in the fork, and it would wait for them for ever.
    """
    global _first
    if _first is None:
        _first = os.getpid()
    if _first == os.getpid():
        return
    backend = getattr(torch, device.type, None)
    if getattr(backend, "_is_in_bad_fork", bool)():
        raise DeviceError(
            f"{device} cannot be used in a fork of a process that has used it; start processes with "
            "multiprocessing.get_context('spawn'), or load the model on the CPU"
        )
    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)
