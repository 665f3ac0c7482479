"""Tune a teacher on pairs and NLI triples before it teaches.

    python tune.py mpnet               -> mpnet-tuned.safetensors, tuned-mpnet.json
    python tune.py mpnet --kept 1.0    the same, the share of the way known: nothing is scored

Released models are trained mostly to search; some steps of InfoNCE on sentences that mean the same, with contradictions
as hard negatives, make them better judges of similarity. Half of the way is often better for searches than all of it,
so both are scored on the dev sets, and the better one is kept.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import score
import torch
from packed import Packed, device_of, half_of
from places import folder, read_json, write_json
from safetensors.torch import load_file, save_file
from score_teachers import score_of
from teachers import class_of, vectors_of
from torch.nn import functional

# How often a batch is of a source (by the beginning of its name), and how many pairs it has.
SHARES = {
    "nli-triples": (30, 512),
    "nli-pairs": (14, 512),
    "tatoeba": (12, 512),
    "wikisplit": (8, 512),
    "wordnet": (3, 512),
    "stackexchange-duplicate": (1, 256),
    "acl": (2, 160),
    "debian": (2, 256),
    "squad-question-paragraph": (5, 160),
    "squad-question-sentence": (4, 384),
    "boolq": (3, 160),
    "fever": (4, 256),
    "medquad": (3, 160),
    "multihop": (2, 160),
    "stackexchange-title": (3, 160),
    "elife-heading": (3, 160),
    "scitldr": (1, 160),
    "arxiv": (2, 160),
    "wikipedia-section": (3, 160),
}
TRIPLES = 384


class Batches:
    """Batches of one source each: rows (B, 2 or 3), no text twice in a column."""

    def __init__(self, seed):
        data = np.load(folder("train.npz"))
        names, pairs, source = read_json(folder("sources.json")), data["pairs"].astype(np.int64), data["pair_src"]
        self.random = np.random.default_rng(seed)
        self.rows, self.sizes, shares = [], [], []
        for start, (share, size) in SHARES.items():
            if start == "nli-triples":
                rows, size = data["triples"].astype(np.int64), TRIPLES
            else:
                rows = pairs[np.isin(source, [i for i, name in enumerate(names) if name.startswith(start)])]
            assert len(rows), f"no source is called {start}"
            self.rows.append(rows)
            self.sizes.append(size)
            shares.append(share)
        self.shares = np.array(shares) / sum(shares)
        self.owed = self.random.random(len(shares)) * self.shares

    def next(self):
        self.owed += self.shares
        at = int(np.argmax(self.owed))
        self.owed[at] -= 1
        rows = self.random.permutation(self.rows[at])[: 2 * self.sizes[at]]
        for column in range(2):
            _, first = np.unique(rows[:, column], return_index=True)
            rows = rows[np.sort(first)]
        return rows[: self.sizes[at]]


def vectors(teacher, tokens, rows):
    """Unit-length vectors of `rows`, padded to the longest."""
    lens = tokens.host_lens[rows]
    longest = -(-int(lens.max()) // 8) * 8
    on_device = torch.from_numpy(rows).to(tokens.flat.device)
    mask = torch.arange(longest, device=tokens.flat.device)[None] < tokens.lens[on_device, None]
    ids = tokens.rows(on_device, longest) * mask
    return functional.normalize(teacher(ids, mask), dim=-1)


def loss_of(teacher, tokens, rows, temperature):
    """InfoNCE both ways; third texts are further negatives."""
    every = vectors(teacher, tokens, rows.T.reshape(-1)).split(len(rows))
    scores = every[0] @ torch.cat(every[1:]).T / temperature
    own = torch.arange(len(rows), device=scores.device)
    back = scores[:, : len(rows)].T
    return (functional.cross_entropy(scores, own) + functional.cross_entropy(back, own)) / 2


def dev_scores(name, weights, dev, device):
    data, tokens, sets = dev
    found = vectors_of(class_of(name)(weights, device, half_of(device)), tokens).float()
    found = found - found.mean(0)
    return {one["name"]: round(score_of(found, one, data), 5) for one in sets}


def worth(scores):
    """What is chosen by: STS first, then what searches and question pairs have."""
    sts = [scores[name] for name in ("stsb-dev", "sick-trial")]
    others = [value for name, value in scores.items() if name not in ("stsb-dev", "sick-trial")]
    return float(np.mean(sts) + 0.5 * np.mean(others))


def tune(name, params, tokens, options, device):
    """Change `params` (fp32) in place."""
    learnt = [p for p in params.values() if p.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=options.rate, betas=(0.9, 0.98), weight_decay=0.01)
    batches, begun, losses = Batches(options.seed), time.time(), []
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    for step in range(options.steps):
        share = step / options.steps
        for group in optimizer.param_groups:
            group["lr"] = options.rate * min(1.0, (share + 0.01) / 0.1) * (1 - share)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(class_of(name)(params, device, dtype), tokens, batches.next(), options.temperature)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learnt, 1.0)
        optimizer.step()
        losses.append(loss.detach())
        if (step + 1) % 20 == 0 or step + 1 == options.steps:
            mean = float(torch.stack(losses[-20:]).mean())
            print(f"{name} step {step + 1}: loss {mean:.4f}, {time.time() - begun:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teacher", choices=("nomic", "mpnet"))
    parser.add_argument("--rate", type=float, default=3e-5)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--temperature", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kept", type=float, help="share of the way to keep; default: the best of 0.5 and 1")
    options = parser.parse_args()
    device, name = device_of(), options.teacher
    before = {n: w.float().to(device) for n, w in load_file(folder(f"{name}.safetensors")).items()}
    dev = None if options.kept else score.load_dev(device)
    rows = [{"share": 0.0, **dev_scores(name, before, dev, device)}] if dev else []
    # A bias of attention that learns would need a slower kernel.
    params = {n: w.clone().requires_grad_("relative" not in n) for n, w in before.items()}
    tune(name, params, Packed.train(device), options, device)
    blends = {}
    for share in (options.kept,) if options.kept else (0.5, 1.0):
        blends[share] = {n: torch.lerp(w, params[n].detach(), share) for n, w in before.items()}
        if dev:
            rows.append({"share": share, **dev_scores(name, blends[share], dev, device)})
    for row in rows:
        row["worth"] = round(worth({n: v for n, v in row.items() if n != "share"}), 5)
        print(name, row, flush=True)
    best = options.kept or max(rows[1:], key=lambda row: row["worth"])["share"]
    print(name, "kept:", best, "of the way")
    kept = {n: w.half().cpu().contiguous() for n, w in blends[best].items()}
    save_file(kept, folder(f"{name}-tuned.part"))
    write_json(folder(f"tuned-{name}.json"), {"options": vars(options), "rows": rows, "kept": best})
    os.replace(folder(f"{name}-tuned.part"), folder(f"{name}-tuned.safetensors"))


if __name__ == "__main__":
    main()
