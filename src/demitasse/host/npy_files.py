"""Arrays in .npy files, read so that no file can ask for more memory than it is large, or for a pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.errors import DataError, reason


def map_npy(path: Path) -> npt.NDArray[Any]:
    """The array in a file, mapped and not read: its shape is compared with the size of the file first."""
    try:
        array: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    except Exception as problem:  # numpy parses the header as Python, with all the errors that has
        raise DataError(f"{path} cannot be read as a .npy file ({reason(problem)}); remove it") from problem
    return array
