"""Which device and dtype to run on."""

from __future__ import annotations

import functools
import subprocess
import sys

import torch

from demitasse.errors import DeviceError
from demitasse.torch_model.forks import mind_fork

TORCH_DTYPES = {
    "float32": torch.float32,
    "fp32": torch.float32,
    "float16": torch.float16,
    "fp16": torch.float16,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
}


def choose_device(name: str | None) -> torch.device:
    """The device called `name`; without a name, the GPU if there is one."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        mind_fork(device)
        torch.empty(1, device=device)
    except DeviceError:
        raise
    except Exception as problem:
        raise DeviceError(
            f"device {name!r} cannot be used here; use 'cpu', or 'cuda' or 'mps' on a machine that has it"
        ) from problem
    return device


def choose_dtype(name: str | None, device: torch.device) -> torch.dtype:
    """The dtype called `name`; float32 without a name, even for weights stored in fewer bits.

    bfloat16 on a CPU is used only if asked for, and only after it was tried in another process: some machines
    advertise instructions for it that kill the process that uses them.
    """
    if name is None:
        return torch.float32
    if name not in TORCH_DTYPES:
        raise DeviceError(f"dtype {name!r} is not known; use 'float32', 'float16' or 'bfloat16'")
    dtype = TORCH_DTYPES[name]
    if device.type == "cpu" and dtype is not torch.float32 and not _cpu_can_multiply(dtype):
        raise DeviceError(f"dtype {name!r} crashes on this CPU; use 'float32'")
    return dtype


def short_name(dtype: torch.dtype) -> str:
    """The short name of a dtype.

    >>> short_name(torch.bfloat16)
    'bf16'
    """
    return min((name for name, known in TORCH_DTYPES.items() if known is dtype), key=len, default=str(dtype))


@functools.cache
def _cpu_can_multiply(dtype: torch.dtype) -> bool:
    program = f"import torch; x = torch.ones(256, 256, dtype={dtype}); torch.nn.functional.linear(x, x)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)  # noqa: S603
    return run.returncode == 0
