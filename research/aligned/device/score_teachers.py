"""Teachers and their mixtures on the dev sets: which shares are worth learning.

    python score_teachers.py nomic nomic-tuned mpnet mpnet-tuned minilm

prints a table and writes teachers.json.
"""

from __future__ import annotations

import itertools
import sys
import time

import numpy as np
import score
import torch
from packed import device_of
from places import folder, write_json
from teachers import load_teacher, vectors_of
from torch.nn import functional

# Shares of nomic, mpnet and MiniLM.
SHARES = (
    (0.5, 0.5, 0),
    (0.6, 0.2, 0.2),
    (0.5, 0.3, 0.2),
    (0.4, 0.4, 0.2),
    (0.45, 0.25, 0.3),
    (0.3, 0.5, 0.2),
    (0.34, 0.33, 0.33),
)


def mixtures(names):
    """Each teacher alone; nomic, mpnet and MiniLM in all shares, as released and as tuned."""
    mixes = [((n, 1.0),) for n in names]
    kinds = [[n for n in names if n.startswith(kind)] for kind in ("nomic", "mpnet", "minilm")]
    for trio in itertools.product(*kinds):
        for shares in SHARES:
            mixes.append(tuple((n, w) for n, w in zip(trio, shares, strict=True) if w))
    return mixes


def score_of(vectors, one, data):
    """The score of `vectors` of all texts on one set."""
    name = one["name"]

    def rows(part):
        return torch.from_numpy(data[f"{name}/{part}"].astype(np.int64)).to(vectors.device)

    if one["kind"] == "search":
        units = functional.normalize(vectors, dim=-1)
        return score.ndcg(units[rows("q")], units[rows("d")], rows("rel"))
    cosines = functional.cosine_similarity(vectors[rows("a")], vectors[rows("b")], dim=-1).double().cpu().numpy()
    truth = data[f"{name}/y"]
    if one["kind"] == "sts":
        return float(score.spearman(cosines[None], truth)[0])
    return score.average_precision(cosines, truth)


def main(names):
    device = device_of()
    data, tokens, dev = score.load_dev(device)
    centred = {}
    for name in names:
        vectors = vectors_of(load_teacher(name, device), tokens).float()
        centred[name] = functional.normalize(vectors - vectors.mean(0), dim=-1)
    header = [score.SHORT.get(s["name"], s["name"]) for s in dev]
    print(f"{'':<52}" + " ".join(f"{h:>8.8}" for h in header))
    rows = []
    for mix in mixtures(names):
        joined = torch.cat([centred[n] * w**0.5 for n, w in mix], 1)
        found = {one["name"]: score_of(joined, one, data) for one in dev}
        label = "+".join(f"{n}:{w}" for n, w in mix)
        rows.append({"mix": f"{label} all", **found})
        print(f"{label:<52}" + " ".join(f"{found[s['name']]:8.4f}" for s in dev), flush=True)
    write_json(folder("teachers.json"), rows)


if __name__ == "__main__":
    begun = time.time()
    main(sys.argv[1:])
    print(f"{time.time() - begun:.1f} s")
