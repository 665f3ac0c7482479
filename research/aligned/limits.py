"""What holds the built-in model back: its teachers, the turn of their vectors to 384 dims, its exits, or its layers?

    python research/aligned/limits.py PACKED --vectors VECTORS --dtype bfloat16 \\
        --json research/results/aligned-limits.json

PACKED is what convert_teachers.py, pack_texts.py and pack_eval.py wrote. On some dev sets it scores the teachers as
released, their joined vectors, these turned to fewer dims, and the built-in model; and linear exits, fitted in closed
form to the turned vectors of 34,000 training texts, that read the states of one depth or of several. Vectors are kept
in VECTORS. With --dtype bfloat16, for CPUs that have it, half an hour on two cores, nearly all of it the teachers.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

import demitasse as dt
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.encoding.reader import Reader

sys.path.insert(0, str(Path(__file__).parent / "device"))
import teachers
from packed import Packed
from safetensors.torch import load_file
from score import sets_of
from score_teachers import score_of

SHARES = {"nomic": 0.42, "mpnet": 0.38, "minilm": 0.2}  # as the built-in model's
SETS = ("stsb-dev", "sick-trial", "reqa-squad-dev", "medline", "climatefever", "questions", "quora-search")
SAMPLE = {0: 16_000, 1: 12_000, 2: 6_000}  # training texts by kind: sentences, queries, passages
LONGEST = 128  # tokens of those
HELD_OUT = 3_000
DIMS = 384
RIDGE = 1e-4


class Texts:
    """Some of the texts of a packed file, as token ids."""

    def __init__(self, data: Any, rows: np.ndarray) -> None:
        ends = np.cumsum(data["lens"].astype(np.int64))
        ids, lens = data["ids"], data["lens"]
        self.ids = [ids[ends[row] - lens[row] : ends[row]] for row in rows]
        self.packed = Packed(np.concatenate(self.ids), lens[rows], data["kind"][rows], torch.device("cpu"))


def of_teacher(name: str, packed: Path, dtype: torch.dtype, texts: Texts) -> np.ndarray:
    teachers.half_of = lambda device: dtype
    teacher = teachers.class_of(name)(load_file(packed / f"{name}.safetensors"), torch.device("cpu"), dtype)
    return teachers.vectors_of(teacher, texts.packed, batch_tokens=8192, show=name).float().numpy()


@dataclass(frozen=True, eq=False)
class IdReader(Reader):
    """Reads texts that are given as their numbers."""

    ids: list[np.ndarray] = field(default_factory=list)

    def read(self, texts: Sequence[str], prompt: str = "") -> PackedTokens:
        return PackedTokens.of([self.ids[int(number)].tolist() for number in texts])


def of_student(texts: Texts) -> np.ndarray:
    """The vectors of the built-in model at every depth."""
    encoder = dt.load()
    reader = IdReader(encoder.reader.tokenizer, encoder.reader.max_tokens, ids=texts.ids)
    numbers = map(str, range(len(texts.ids)))
    found = replace(encoder, reader=reader).encode_cuts(numbers, dt.grid(range(7), [DIMS]))
    return np.stack([found[cut] for cut in sorted(found)])


def rows_of(data: Any, *names: str) -> np.ndarray:
    """The texts of some evaluation sets."""
    parts = [data[f"{name}/{part}"] for name in names for part in "abqd" if f"{name}/{part}" in data]
    return np.unique(np.concatenate(parts))


def training_rows(data: Any) -> np.ndarray:
    random, kinds, short = np.random.default_rng(0), data["kind"], data["lens"] <= LONGEST
    chosen = (random.choice(np.flatnonzero((kinds == kind) & short), n, replace=False) for kind, n in SAMPLE.items())
    return np.concatenate([*chosen])


def kept(path: Path, make: Callable[[Texts], np.ndarray], of: tuple[Any, np.ndarray]) -> torch.Tensor:
    """The vectors in a file, made first if it is not there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, make(Texts(*of)).astype(np.float16))
    return torch.from_numpy(np.load(path).astype(np.float32))


class Scores:
    """Scores of vectors of the evaluation texts, printed and kept as they come."""

    def __init__(self, data: Any, rows: np.ndarray) -> None:
        self.data, self.rows = data, torch.from_numpy(rows)
        self.sets = [one for one in sets_of(data) if one["name"] in SETS]
        self.found: list[dict[str, Any]] = []

    def near(self, vectors: torch.Tensor, target: torch.Tensor) -> dict[str, float]:
        """The mean cosine of the vectors of each set to those of `target`."""
        cosines = functional.cosine_similarity(vectors, target, dim=-1).numpy()
        chosen = {name: np.isin(self.rows.numpy(), rows_of(self.data, name)) for name in SETS}
        return {name: round(float(cosines[own].mean()), 4) for name, own in chosen.items()}

    def add(self, name: str, vectors: torch.Tensor, **facts: Any) -> None:
        everything = torch.zeros(len(self.data["lens"]), vectors.shape[1])
        everything[self.rows] = vectors
        scores = {one["name"]: round(score_of(everything, one, self.data), 5) for one in self.sets}
        self.found.append({"name": name, **facts, "scores": scores})
        print(f"{name:<40}", " ".join(f"{100 * score:.1f}" for score in scores.values()), facts or "", flush=True)


def inputs(states: torch.Tensor, depths: Sequence[int]) -> torch.Tensor:
    """What an exit that reads `depths` multiplies; the last column is for its bias."""
    return torch.cat([*(states[depth] for depth in depths), torch.ones(states.shape[1], 1)], -1)


def fit(
    scores: Scores,
    depths: Sequence[int],
    train: tuple[torch.Tensor, torch.Tensor],
    evaluated: tuple[torch.Tensor, torch.Tensor],
) -> None:
    """An exit that reads the states of `depths`, and how close it comes to vectors it was not fitted on."""
    x, to = inputs(train[0], depths), train[1]
    order = torch.from_numpy(np.random.default_rng(1).permutation(len(x)))
    held, own = order[:HELD_OUT], order[HELD_OUT:]
    moments = (x[own].T @ x[own]).double()
    moments += RIDGE * moments.diagonal().mean() * torch.eye(len(moments), dtype=torch.double)
    weight = torch.linalg.solve(moments, (x[own].T @ to[own]).double()).float()
    cosine = float(functional.cosine_similarity(x[held] @ weight, to[held], dim=-1).mean())
    made = inputs(evaluated[0], depths) @ weight
    near = {"held out": round(cosine, 4), **scores.near(made, evaluated[1])}
    scores.add(f"exit that reads {', '.join(map(str, depths))}", made, cosines=near)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packed", type=Path)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    evaluation = dict(np.load(options.packed / "eval_raw.npz"))
    training = dict(np.load(options.packed / "train_raw.npz"))
    rows = rows_of(evaluation, *SETS)
    scores = Scores(evaluation, rows)
    parts = {"eval": (evaluation, rows), "train": (training, training_rows(training))}
    joined: dict[str, list[torch.Tensor]] = {"eval": [], "train": []}
    for name, share in SHARES.items():
        make = partial(of_teacher, name, options.packed, getattr(torch, options.dtype))
        found = {part: kept(options.vectors / f"{name}-{part}.npy", make, of) for part, of in parts.items()}
        centred = {part: functional.normalize(one - found["train"].mean(0), dim=-1) for part, one in found.items()}
        scores.add(f"{name} as released", centred["eval"])
        for part, one in centred.items():
            joined[part].append(one * share**0.5)
    whole, seen = torch.cat(joined["eval"], -1), torch.cat(joined["train"], -1)
    scores.add("joined", whole)
    values, axes = torch.linalg.eigh((seen.T @ seen).double())
    values, axes = values.flip(0), axes.flip(1).float()
    for dims in (768, 512, DIMS, 256, 128):
        share = float(values[:dims].sum() / values.sum())
        scores.add(f"turned to {dims} dims", whole @ axes[:, :dims], kept=round(share, 3))
    evened = values[:DIMS].float() ** -0.1
    scores.add(f"turned to {DIMS}, small axes made larger", whole @ axes[:, :DIMS] * evened)
    train, evaluated = (
        kept(options.vectors / f"student-{part}.npy", of_student, parts[part]) for part in ("train", "eval")
    )
    scores.add("built-in, 6 layers", evaluated[6])
    for share in (0.2, 0.4):
        scores.add(f"built-in, 6 layers, and {share} of no layers", torch.cat([evaluated[6], share * evaluated[0]], -1))
    turned = [one @ axes[:, :DIMS] for one in (seen, whole)]
    for depths in ((6,), (0, 6), (3, 6), tuple(range(7)), (3,), (0, 3)):
        fit(scores, depths, (train, functional.normalize(turned[0], dim=-1)), (evaluated, turned[1]))
    result = {"shares": SHARES, "sample": SAMPLE, "dtype": options.dtype, "fingerprint": dt.load().fingerprint}
    options.json.write_text(json.dumps({**result, "rows": scores.found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
