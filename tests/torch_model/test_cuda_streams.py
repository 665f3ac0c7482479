from __future__ import annotations

import numpy as np
import torch

from demitasse import Cut
from demitasse.torch_model.cuda_streams import Lanes, Launched, to_host

CPU = torch.device("cpu")


def test_on_a_cpu_there_is_nothing_to_wait_for() -> None:
    lanes = Lanes(CPU)
    with lanes.next():
        vectors = torch.ones(2, 3)
    lanes.join({0: [vectors]})
    fetched = Launched({Cut(0, 3): to_host(vectors)}, CPU).fetched()[Cut(0, 3)]
    np.testing.assert_array_equal(fetched, np.ones((2, 3), np.float32))
    assert np.shares_memory(fetched, vectors.numpy())  # not copied either
