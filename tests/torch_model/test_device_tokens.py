from __future__ import annotations

import numpy as np
import torch

from demitasse.encoding.batching import token_batches
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.torch_model.device_tokens import DeviceTokens


def test_batches_are_padded_as_on_the_host() -> None:
    rng = np.random.default_rng(3)
    packed = PackedTokens.of([rng.integers(5, 99, rng.integers(1, 12)).tolist() for _ in range(40)])
    batches = token_batches(packed.lengths.tolist(), budget=48)
    on_device = DeviceTokens(packed, batches, torch.device("cpu"))
    assert len(on_device) == len(batches) > 3
    assert on_device.order.tolist() == [index for batch in batches for index in batch]
    for number, batch in enumerate(batches):
        ids, mask, padded = on_device.batch(number, fill=7)
        expected = packed.padded(batch, fill=7)
        assert (ids.numpy() == expected.ids).all()
        assert (mask.numpy() == expected.mask).all()
        assert padded == (not expected.mask.all())


def test_batch_lengths_can_be_a_multiple() -> None:
    packed = PackedTokens.of([[5] * 9, [6] * 3])
    ids, mask, padded = DeviceTokens(packed, [[0, 1]], torch.device("cpu")).batch(0, fill=7, multiple=8)
    assert ids.shape == mask.shape == (2, 16)
    assert padded
    assert mask.sum(1).tolist() == [9, 3]
    assert (ids[mask == 0] == 7).all()


def test_no_texts_no_batches() -> None:
    assert len(DeviceTokens(PackedTokens.of([]), [], torch.device("cpu"))) == 0
