"""Teachers and their mixtures on the dev sets: which weights, prefixes and centring are worth learning.

    python score_teachers.py nomic mpnet minilm

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
from teachers import SCHEMES, load_teacher, vectors_of
from torch.nn import functional

# Shares of nomic (without a prefix, and with that of the task), mpnet and MiniLM.
SHARES = (
    (0.5, 0.5, 0),
    (0.7, 0.3, 0),
    (0.5, 0.3, 0.2),
    (0.34, 0.33, 0.33),
    (0.6, 0.0, 0.4),
    (0.3, 0.7, 0),
    (0.7, 0.2, 0.1),
)


def all_vectors(names, tokens, device):
    """By teacher; nomic also by what is put before the texts."""
    vectors = {}
    for name in names:
        teacher = load_teacher(name, device)
        for scheme in SCHEMES if name == "nomic" else ("none",):
            label = name if scheme == "none" else f"{name}.{scheme}"
            vectors[label] = vectors_of(teacher, tokens, SCHEMES[scheme]).float()
    return vectors


def mixtures(names, vectors):
    mixes = [((n, 1.0),) for n in vectors]
    if len(names) > 1:
        for nomic in [n for n in vectors if n.startswith("nomic")][:2]:
            for shares in SHARES:
                pairs = zip((nomic, "mpnet", "minilm"), shares, strict=True)
                mixes.append(tuple((n, w) for n, w in pairs if w and n in vectors))
    return mixes


def centred(vectors, kind, how):
    if how == "none":
        return vectors
    means = [vectors[kind == k].mean(0) if how == "kind" else vectors.mean(0) for k in range(3)]
    return functional.normalize(vectors - torch.stack(means)[kind], dim=-1)


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
    data, tokens, sets = score.load_eval(device)
    dev = [s for s in sets if s["role"] == "dev"]
    kind = torch.from_numpy(tokens.kind.astype(np.int64)).to(device)
    vectors = all_vectors(names, tokens, device)
    header = [score.SHORT.get(s["name"], s["name"]) for s in dev]
    print(f"{'':<46}" + " ".join(f"{h:>8.8}" for h in header))
    rows = []
    for mix, how in itertools.product(mixtures(names, vectors), ("none", "all", "kind")):
        joined = torch.cat([centred(vectors[n], kind, how) * w**0.5 for n, w in mix], 1)
        found = {one["name"]: score_of(joined, one, data) for one in dev}
        label = "+".join(f"{n}:{w}" for n, w in mix) + f" {how}"
        rows.append({"mix": label, **found})
        print(f"{label:<46}" + " ".join(f"{found[s['name']]:8.4f}" for s in dev), flush=True)
    write_json(folder("teachers.json"), rows)


if __name__ == "__main__":
    begun = time.time()
    main(sys.argv[1:])
    print(f"{time.time() - begun:.1f} s")
