"""Everything that an index holds, taken elsewhere."""

from __future__ import annotations

from pathlib import Path

import demitasse as dt
from demitasse.search.contents import contents


def test_texts_and_vectors_come_in_the_same_order_without_what_was_deleted(tmp_path: Path) -> None:
    encoder = dt.load().cut(layers=1, dims=96)
    texts = ["A ristretto is short.", "A lungo is long.", "Trams run every ten minutes.", "The bank is closed."]
    index = dt.Index.build(encoder, texts[:3], tmp_path / "docs", ids=["a", "b", "c"])
    index.delete(["b"])
    index.add(texts[3:], ids=["d"])
    held = contents(tmp_path / "docs")
    assert (held.ids, held.texts) == (["a", "c", "d"], [texts[0], texts[2], texts[3]])
    assert held.cut == encoder.full
    assert held.space.difference(encoder.space) is None
    found = dt.restore(held.vectors, "int8")
    assert ((found * encoder.encode(held.texts)).sum(axis=1) > 0.999).all()
