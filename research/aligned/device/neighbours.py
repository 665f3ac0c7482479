"""The nearest texts of each text in a teachers' space: short texts among short ones, passages among passages, queries
among passages.

    python neighbours.py "nomic:0.5,mpnet:0.5"   -> near.npy (N, 8), near_passages.npy (N, 8; -1 for what is no query)

Approximate: the best of each of many random groups of texts, then the best of those.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import torch
from packed import PASSAGE, QUERY, device_of
from places import folder
from space import Space

COUNT = 8


@torch.inference_mode()
def nearest(target, rows, among, group=1024, chunk=2048):
    """For each of `rows` the numbers of its nearest `among` (both index arrays), not itself."""
    device = target.device
    shuffled = among[torch.randperm(len(among), device=device, generator=torch.Generator(device).manual_seed(0))]
    groups = max(COUNT, -(-len(shuffled) // group))
    size = -(-len(shuffled) // groups)
    filled = torch.cat([shuffled, shuffled[: groups * size - len(shuffled)]])
    units = torch.nn.functional.normalize(target[filled].float(), dim=-1).to(target.dtype).T.contiguous()
    place = torch.full((len(target),), -1, dtype=torch.long, device=device)
    place[shuffled] = torch.arange(len(shuffled), device=device)
    out = torch.empty(len(rows), COUNT, dtype=torch.int32, device=device)
    for begin in range(0, len(rows), chunk):
        part = rows[begin : begin + chunk]
        scores = torch.nn.functional.normalize(target[part].float(), dim=-1).to(target.dtype) @ units
        own = place[part]
        here = torch.arange(len(part), device=device)
        scores[here, own.clamp(min=0)] = torch.where(own >= 0, -1.0, scores[here, own.clamp(min=0)].float()).to(
            scores.dtype
        )
        best, where = scores.view(len(part), groups, size).max(-1)
        top = best.topk(COUNT, dim=-1).indices
        at = top * size + where.gather(1, top)
        out[begin : begin + chunk] = filled[at].int()
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec")
    parser.add_argument("--centre", default="all")
    parser.add_argument("--chunk", type=int, default=2048)
    options = parser.parse_args()
    device = device_of()
    kinds = np.load(folder("train.npz"))["kind"]
    space = Space(options.spec, options.centre, device, kinds)
    target = space.target
    del space.whole
    kind = torch.from_numpy(kinds).to(device)
    near = torch.empty(len(target), COUNT, dtype=torch.int32, device=device)
    begun = time.time()
    for some in (kind != PASSAGE, kind == PASSAGE):
        rows = some.nonzero().squeeze(1)
        near[rows] = nearest(target, rows, rows, chunk=options.chunk)
    wide = torch.full((len(target), COUNT), -1, dtype=torch.int32, device=device)
    queries, passages = (kind == QUERY).nonzero().squeeze(1), (kind == PASSAGE).nonzero().squeeze(1)
    wide[queries] = nearest(target, queries, passages, chunk=options.chunk)
    for name, table in (("near", near), ("near_passages", wide)):
        np.save(folder(f"{name}.part.npy"), table.cpu().numpy())
        os.replace(folder(f"{name}.part.npy"), folder(f"{name}.npy"))
    print(f"neighbours of {len(near)} texts in {time.time() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
