"""The blocks of docs/serving.md that need clients which `make test` does not install."""

from __future__ import annotations

import os
import re

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would fetch a list of prices

import numpy as np
import pytest
from paths import ROOT
from servers import running

import demitasse as dt

PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"<!-- not run: make contracts runs it -->\n```python\n(.*?)```", PAGE, flags=re.DOTALL)


def test_all_are_found() -> None:
    assert len(BLOCKS) == 3


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split()[1])
def test_the_block_gives_the_vectors(block: str) -> None:
    names: dict[str, object] = {}
    with running(DEMITASSE_API_KEY="YOUR_KEY") as server:
        exec(block.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}"), names)
    expected = dt.load().cut("3x128").encode(["a ristretto", "a lungo"])
    np.testing.assert_allclose(names["vectors"], expected, atol=2e-6)
