"""Ways to end a training run in the middle."""

from __future__ import annotations

import pytest

from demitasse.training.run_folder import RunFolder


def fail_after_saving(patch: pytest.MonkeyPatch, times: int) -> None:
    """Have training end as if it was killed, right after a checkpoint was saved so many times."""
    real, saved = RunFolder.save, []

    def save_then_fail(self: RunFolder, state: dict[str, object]) -> None:
        real(self, state)
        saved.append(state["total"])
        if len(saved) == times:
            raise MemoryError

    patch.setattr(RunFolder, "save", save_then_fail)
