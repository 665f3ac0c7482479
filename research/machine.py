"""What machine this is, for the record of a measurement."""

from __future__ import annotations

import platform
from pathlib import Path


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
