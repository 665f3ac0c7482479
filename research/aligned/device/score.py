"""Every depth at 384, 128, 64 and 32 dims on every set, and shallow queries against documents by all layers.

    python score.py NAME …          runs/NAME/model.pt -> a table, runs/NAME/score.json
    python score.py raw             the released model

With --tests the table is that of the test sets, which are reported and never chosen on.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np
import torch
from packed import Packed, device_of
from places import folder, read_json, write_json
from student import DEPTH, released, states_of
from torch.nn import functional

WIDTHS = (384, 128, 64, 32)


def sets_of(data):
    """What the evaluation sets are: name, role (dev, test) and kind (sts, search, pairs) of each."""
    return json.loads(bytes(data["sets"]).decode())


def load_eval(device):
    data = np.load(folder("eval.npz"))
    return data, Packed(data["ids"], data["lens"], data["kind"], device), sets_of(data)


def load_dev(device):
    """The dev sets alone, and the texts that they need."""
    data = dict(np.load(folder("eval.npz")))  # read once: an archive is read again at every look
    sets = [one for one in sets_of(data) if one["role"] == "dev"]
    parts = {f"{one['name']}/{part}" for one in sets for part in "abqd"} & set(data)
    used, inverse = np.unique(np.concatenate([data[part] for part in sorted(parts)]), return_inverse=True)
    arrays = {part: data[part] for one in sets for part in data if part.startswith(one["name"] + "/")}
    at = 0
    for part in sorted(parts):
        arrays[part] = inverse[at : at + len(data[part])]
        at += len(data[part])
    ends = np.cumsum(data["lens"].astype(np.int64))
    lens = data["lens"][used]
    ids = np.concatenate([data["ids"][end - size : end] for end, size in zip(ends[used], lens, strict=True)])
    return arrays, Packed(ids, lens, data["kind"][used], device), sets


def ranks(values):
    """Ranks from 0, ties sharing their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[inverse]


def spearman(scores, truth):
    """Rows of scores (R, n) against one truth (n,)."""
    b = ranks(truth)
    return [float(np.corrcoef(ranks(a), b)[0, 1]) for a in scores]


def average_precision(scores, labels):
    order = np.argsort(-scores, kind="stable")
    hit = labels[order] > 0
    return float((np.cumsum(hit) / (np.arange(len(hit)) + 1))[hit].mean())


def ndcg(queries, documents, related):
    """nDCG@10 of unit-length vectors; `related` is (query, document, grade) a row."""
    scores = queries @ documents.T
    top = scores.topk(10, dim=1).indices
    grade = torch.zeros_like(scores)
    grade[related[:, 0], related[:, 1]] = related[:, 2].to(grade.dtype)
    discount = 1 / torch.log2(torch.arange(10, device=scores.device) + 2.0)
    gain = (grade.gather(1, top) * discount).sum(1)
    best = (grade.sort(1, descending=True).values[:, :10] * discount).sum(1)
    return float((gain / best.clamp(min=1e-9)).mean())


@torch.inference_mode()
def scores_of(vectors, data, sets):
    """`vectors` (K, N, 384) of all evaluation texts -> {set: {"KxD": score, "q3": …}}."""
    device = vectors.device
    depths = range(len(vectors))
    units = {w: functional.normalize(vectors[..., :w], dim=-1) for w in WIDTHS if w <= vectors.shape[-1]}
    found = {}
    for one in sets:
        name = one["name"]
        mine = found[name] = {}
        if one["kind"] in ("sts", "pairs"):
            a, b = (torch.from_numpy(data[f"{name}/{s}"].astype(np.int64)).to(device) for s in "ab")
            for w, u in units.items():
                cosines = (u[:, a] * u[:, b]).sum(-1).double().cpu().numpy()
                values = (
                    spearman(cosines, data[f"{name}/y"])
                    if one["kind"] == "sts"
                    else [average_precision(c, data[f"{name}/y"]) for c in cosines]
                )
                mine.update({f"{k}x{w}": float(v) for k, v in zip(depths, values, strict=True)})
        else:
            q, d = (torch.from_numpy(data[f"{name}/{s}"].astype(np.int64)).to(device) for s in "qd")
            related = torch.from_numpy(data[f"{name}/rel"].astype(np.int64)).to(device)
            for w, u in units.items():
                for k in depths:
                    mine[f"{k}x{w}"] = ndcg(u[k, q], u[k, d], related)
                    if k < len(vectors) - 1 and w in (384, 128):
                        mine[f"q{k}x{w}"] = ndcg(u[k, q], u[-1, d], related)
    return found


def summary(found, sets):
    """The numbers the bars speak of."""
    tests = [s["name"] for s in sets if s["kind"] == "sts" and s["role"] == "test"]

    def mean(names, cut):
        return 100 * float(np.mean([found[n][cut] for n in names]))

    def below(names, width):
        return float(np.mean([mean(names, f"{k}x{width}") for k in range(1, DEPTH)]))

    last = f"{DEPTH}x384"
    out = {}
    for label, names in (("dev", ["stsb-dev", "sick-trial"]), ("sts", tests)):
        full = mean(names, last)
        out[label] = {
            "last": full,
            **{f"1-5x{w}": below(names, w) for w in WIDTHS},
            "0": mean(names, "0x384"),
            "1": mean(names, "1x384"),
            "3": mean(names, "3x384"),
            "1%": 100 * mean(names, "1x384") / full,
            "3%": 100 * mean(names, "3x384") / full,
        }
    out["searches"] = {
        s["name"]: {
            c: found[s["name"]][c]
            for c in (last, "3x384", "3x128", "1x384", "0x384", "q3x384", "q1x384", "q3x128")
            if c in found[s["name"]]
        }
        for s in sets
        if s["kind"] in ("search", "pairs")
    }
    return out


SHORT = {
    "reqa-squad-dev": "reqa",
    "hotpotqa-500": "hotpot",
    "quora-search": "quoraS",
    "climatefever": "climate",
    "questions": "qpairs",
}


def table(rows, sets, *, tests=False):
    """Rows (name, summary) as text: the dev sets, on which to choose; with `tests`, what is only reported."""
    label, role = ("sts", "test") if tests else ("dev", "dev")
    lines = [f"{'STS of ' + role + ' sets':<20} last  1-5 at 384 / 128 / 32    0     1     3    1%   3%"]
    for name, s in rows:
        d = s[label]
        lines.append(
            f"{name:<20.20} {d['last']:.2f} {d['1-5x384']:.2f} / {d['1-5x128']:.2f} / {d['1-5x32']:.2f}"
            f"  {d['0']:.2f} {d['1']:.2f} {d['3']:.2f} {d['1%']:.1f} {d['3%']:.1f}"
        )
    shown = [s for s in sets if s["kind"] != "sts" and s["role"] == role]
    lines.append(
        "searches: full, 3x128, query at 3 layers, 0 layers | "
        + " | ".join(SHORT.get(s["name"], s["name"]) for s in shown)
    )
    for name, s in rows:
        cells = []
        for one in shown:
            v = s["searches"][one["name"]]
            cells.append(" ".join(f"{v[c]:.3f}" for c in ("6x384", "3x128", "q3x384", "0x384") if c in v))
        lines.append(f"{name:<20.20} " + " | ".join(cells))
    return "\n".join(lines)


def student_of(name, device):
    student = released(dtype=torch.float32, attention="pad")
    if name != "raw":
        student.load_state_dict(torch.load(folder("runs", name, "model.pt"), map_location="cpu")["weights"])
    return student.to(device).eval()


@torch.inference_mode()
def score_run(name, data, tokens, sets, device):
    student = student_of(name, device)
    states = states_of(student, tokens, np.arange(len(tokens)), batch_tokens=65536)
    found = scores_of(student.embedded(states), data, sets)
    os.makedirs(folder("runs", name), exist_ok=True)
    write_json(folder("runs", name, "score.json"), found)
    return found


def report(names, *, tests=False):
    device = device_of()
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    data, tokens, sets = load_eval(device)
    rows = []
    for name in names:
        path = folder("runs", name, "score.json")
        made = folder("runs", name, "model.pt")
        kept = os.path.exists(path) and (
            name == "raw" or not os.path.exists(made) or os.path.getmtime(path) > os.path.getmtime(made)
        )
        found = read_json(path) if kept else score_run(name, data, tokens, sets, device)
        rows.append((name, summary(found, sets)))
    torch.backends.cuda.matmul.allow_tf32 = before
    return table(rows, sets, tests=tests)


if __name__ == "__main__":
    begun = time.time()
    print(report([n for n in sys.argv[1:] if n != "--tests"], tests="--tests" in sys.argv))
    print(f"{time.time() - begun:.1f} s")
