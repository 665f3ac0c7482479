from __future__ import annotations

import pytest

from demitasse import FolderError
from demitasse.encoding.pooling import Pooling


def test_both_spellings_of_the_config_are_read() -> None:
    assert Pooling.from_config({"pooling_mode_lasttoken": True}) == Pooling(("last",))
    assert Pooling.from_config({"pooling_mode": "lasttoken"}) == Pooling(("last",))
    assert Pooling.from_config({"pooling_mode": ["mean", "cls"], "include_prompt": False}) == Pooling(
        ("mean", "cls"), include_prompt=False
    )
    assert Pooling.from_config({}) == Pooling(("mean",))


def test_unknown_modes_are_refused() -> None:
    with pytest.raises(FolderError, match="pooling mode 'median' is not known; use one or more of cls"):
        Pooling(("median",))
