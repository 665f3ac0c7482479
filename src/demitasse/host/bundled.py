"""What ships with demitasse: the built-in model, a sample to evaluate on, sentences, pages, a graph for search."""

from __future__ import annotations

from pathlib import Path

_ASSETS = Path(__file__).parents[1] / "assets"
BUILT_IN = _ASSETS / "model"
SAMPLE = _ASSETS / "sample"
REPORT = _ASSETS / "report"
SHARED_PAGES = _ASSETS / "pages"  # what the report and the playground have in common
INT8_PRODUCTS = _ASSETS / "search" / "int8-products.onnx"  # one MatMulInteger; made by a test of the scan kernels
PLAYGROUND = _ASSETS / "playground"
WEB = _ASSETS / "web"  # what web/build.mjs makes of the TypeScript in web/


def corpus() -> list[str]:
    """A few hundred sentences on everyday topics, for the demo and as sample text.

    >>> len(corpus()) > 200
    True
    """
    lines = (_ASSETS / "corpus.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]
