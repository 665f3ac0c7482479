from __future__ import annotations

import numpy as np
import torch

from demitasse.encoding.batching import token_batches
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.torch_model.device_tokens import DeviceTokens


def test_batches_are_those_the_host_would_pad() -> None:
    rng = np.random.default_rng(3)
    rows = PackedTokens.of([rng.integers(5, 99, rng.integers(1, 12)).tolist() for _ in range(40)])
    batches = token_batches(rows.lengths.tolist(), budget=48)
    packed = DeviceTokens(rows, batches, torch.device("cpu"))
    assert len(packed) == len(batches) > 3
    assert packed.order.tolist() == [index for batch in batches for index in batch]
    for number, batch in enumerate(batches):
        ids, mask, padded = packed.batch(number, fill=7)
        expected = rows.padded(batch, fill=7)
        assert (ids.numpy() == expected.ids).all()
        assert (mask.numpy() == expected.mask).all()
        assert padded == (not expected.mask.all())


def test_batches_as_long_as_is_asked() -> None:
    rows = PackedTokens.of([[5] * 9, [6] * 3])
    ids, mask, padded = DeviceTokens(rows, [[0, 1]], torch.device("cpu")).batch(0, fill=7, multiple=8)
    assert ids.shape == mask.shape == (2, 16)
    assert padded
    assert mask.sum(1).tolist() == [9, 3]
    assert (ids[mask == 0] == 7).all()


def test_no_rows_no_batches() -> None:
    assert len(DeviceTokens(PackedTokens.of([]), [], torch.device("cpu"))) == 0
