"""Token ids of many texts as one flat tensor on the device."""

from __future__ import annotations

import numpy as np
import torch
from places import folder

SENTENCE, QUERY, PASSAGE = 0, 1, 2


def device_of():
    if torch.cuda.is_available():
        # cuDNN's attention builds a plan for every new shape, and there are hundreds of lengths.
        torch.backends.cuda.enable_cudnn_sdp(enabled=False)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def half_of(device):
    """fp16 on a GPU; CPUs are slow at it or cannot."""
    return torch.float16 if torch.device(device).type == "cuda" else torch.float32


class Packed:
    """`flat` holds the ids of all texts one after another; `kind` and lengths are on the host."""

    def __init__(self, ids, lens, kind, device):
        self.host_lens = lens.astype(np.int64)
        self.kind = kind
        begins = np.concatenate([[0], np.cumsum(self.host_lens)[:-1]])
        # int32 is enough for ids; a tail of zeros lets any gather read past the end.
        flat = np.concatenate([ids.astype(np.int32), np.zeros(512, np.int32)])
        self.flat = torch.from_numpy(flat).to(device)
        self.begins = torch.from_numpy(begins).to(device)
        self.lens = torch.from_numpy(self.host_lens).to(device)

    def __len__(self):
        return len(self.host_lens)

    @classmethod
    def train(cls, device):
        data = np.load(folder("train.npz"))
        return cls(data["ids"], data["lens"], data["kind"], device)

    def rows(self, rows, length):
        """The ids (B, length) of texts that all have `length` tokens."""
        return self.flat[self.begins[rows, None] + torch.arange(length, device=rows.device)].long()

    def packed(self, rows, total, multiple=64):
        """Ids, places and text numbers (T,) of `rows` one after another, T = `total` rounded up; and bounds (B + 2,).

        `total` is the sum of their lengths, known to the host, so that nothing waits for the device. What fills T up
        is one more text of zeros, number B.
        """
        count = len(rows)
        size = -(-total // multiple) * multiple
        lens = self.lens[rows]
        ends = lens.cumsum(0)
        bounds = torch.zeros(count + 2, dtype=torch.int32, device=rows.device)
        bounds[1:-1] = ends
        bounds[-1] = size
        token = torch.arange(size, device=rows.device)
        text = torch.searchsorted(ends, token, right=True)  # B for what fills up
        shift = torch.empty(count + 1, dtype=torch.long, device=rows.device)
        shift[:-1] = self.begins[rows] - (ends - lens)
        shift[-1] = len(self.flat) - 512 - total
        start = torch.empty_like(shift)
        start[:-1] = ends - lens
        start[-1] = total
        ids = self.flat[token + shift[text]]
        return ids, token - start[text], text, bounds
