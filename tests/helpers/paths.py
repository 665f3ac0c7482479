"""Where the repository is, for tests of what lies beside the package."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
