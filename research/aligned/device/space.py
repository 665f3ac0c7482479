"""The shared space: teachers' vectors centred, weighed, joined, turned to 384 dims in an order that prefixes keep.

    python space.py "nomic:0.5,mpnet:0.3,minilm:0.2" --centre all

makes the turn, keeps it in a file, and says how much of the vectors it keeps.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time

import numpy as np
import torch
from losses import divergence, spread
from packed import device_of, half_of
from places import folder
from torch.nn import functional

DIMS = 384


def parsed(spec):
    """'nomic:0.5,mpnet:0.5' -> [('nomic', 0.5), ('mpnet', 0.5)], shares adding up to 1."""
    pairs = [(p.split(":")[0], float(p.split(":")[1]) if ":" in p else 1.0) for p in spec.split(",")]
    total = sum(w for _, w in pairs)
    return [(n, w / total) for n, w in pairs]


class Space:
    """`whole` (N, D) has unit rows, `turn` (D, 384) leads to the targets; `means` by teacher and kind."""

    def __init__(self, spec, centre, device, kinds, log=print):
        begun = time.time()
        half = half_of(device)
        key = hashlib.sha1(f"{spec}|{centre}|{len(kinds)}".encode()).hexdigest()[:12]
        os.makedirs(folder("space"), exist_ok=True)
        self.path = folder("space", f"{key}.pt")
        kind = torch.from_numpy(kinds.astype(np.int64)).to(device)
        parts, self.means = [], {}
        for name, share in parsed(spec):
            vectors = torch.from_numpy(np.load(folder("vec", f"{name}.npy"))).to(device).to(half)
            if centre != "none":
                means = torch.stack([self._mean(vectors, kind if centre == "kind" else None, k) for k in range(3)])
                self.means[name] = means.cpu()
                for begin in range(0, len(vectors), 1 << 18):
                    part = slice(begin, begin + (1 << 18))
                    moved = vectors[part].float() - means[kind[part]]
                    vectors[part] = functional.normalize(moved, dim=-1).to(half)
            parts.append(vectors.mul_(share**0.5))
        self.whole = torch.cat(parts, 1)
        del parts
        if os.path.exists(self.path):
            saved = torch.load(self.path, map_location=device)
            self.turn, self.kept = saved["turn"], saved["kept"]
        else:
            self._find_turn(device)
            torch.save(
                {"turn": self.turn.cpu(), "kept": self.kept, "spec": spec, "centre": centre, "means": self.means},
                self.path + f".{os.getpid()}",
            )
            os.replace(self.path + f".{os.getpid()}", self.path)
        self.target = torch.cat(
            [(self.whole[b : b + (1 << 18)] @ self.turn.to(half)) for b in range(0, len(self.whole), 1 << 18)]
        )
        turned = f"{self.whole.shape[1]} -> {DIMS} dims keep {self.kept:.4f}"
        log(f"space {spec} centre={centre}: {turned}; {time.time() - begun:.1f} s")

    @staticmethod
    def _mean(vectors, kind, number):
        total, count = torch.zeros(vectors.shape[1], device=vectors.device), 0
        for begin in range(0, len(vectors), 1 << 18):
            part = vectors[begin : begin + (1 << 18)].float()
            if kind is not None:
                part = part[kind[begin : begin + (1 << 18)] == number]
            total, count = total + part.sum(0), count + len(part)
        return total / max(count, 1)

    def _find_turn(self, device):
        generator = torch.Generator().manual_seed(0)
        sample = torch.randperm(len(self.whole), generator=generator)[:200_000].to(device)
        moments = torch.zeros(self.whole.shape[1], self.whole.shape[1], device=device)
        for rows in sample.split(1 << 15):
            part = self.whole[rows].float()
            moments += part.T @ part
        values, axes = torch.linalg.eigh(moments.double())
        dims = min(DIMS, len(values))
        turn = axes[:, -dims:].flip(1).float()
        self.kept = float(values[-dims:].sum() / values.sum())
        if dims < DIMS:
            turn = functional.pad(turn, (0, DIMS - dims))
        self.turn = turn @ self._order(self.whole[sample].float(), turn, device)

    @staticmethod
    def _order(whole, turn, device, rate=3e-3, temperature=0.03):
        """A rotation after which prefixes keep most of the similarities (Cayley, so that it stays a rotation)."""
        free = torch.zeros(DIMS, DIMS, device=device, requires_grad=True)
        one = torch.eye(DIMS, device=device)
        optimizer = torch.optim.Adam([free], lr=rate)
        generator = torch.Generator().manual_seed(0)
        widths = (16, 32, 64, 128, 192)
        rotation = one
        steps, size = (20, 256) if device.type == "cpu" else (150, 768)
        for step in range(steps):
            rows = torch.randint(len(whole), (size,), generator=generator).to(device)
            targets = spread(whole[rows], temperature)
            skew = free - free.T
            rotation = torch.linalg.solve(one + skew, one - skew)
            vectors = (whole[rows] @ turn @ rotation)[None]
            depth, shares = torch.ones(1, device=device), (1.0,) * len(widths)
            loss = divergence(vectors, targets, depth, widths, shares, temperature=temperature)
            for group in optimizer.param_groups:
                group["lr"] = rate * (1 - step / steps)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return rotation.detach()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec")
    parser.add_argument("--centre", default="all", choices=("none", "all", "kind"))
    options = parser.parse_args()
    kinds = np.load(folder("train.npz"))["kind"]
    Space(options.spec, options.centre, device_of(), kinds)


if __name__ == "__main__":
    main()
