"""What a training step costs: plain InfoNCE, every objective and sentence-transformers' losses, interleaved in one run.

    python benchmarks/train_step.py MODEL … --data nli-triples.jsonl.gz --json benchmarks/results/train-step.json

A step is forward, backward, clipping and AdamW over one batch of triples that was tokenised before; the same texts for
all. Ratios are to the plain step: InfoNCE on the last layer at full width. sentence-transformers runs its own model and
Matryoshka2dLoss over all layers and dims (n_layers_per_step=-1, n_dims_per_step=-1) under the same autocast.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from sentence_transformers import SentenceTransformer
from sentence_transformers import losses as st

import demitasse as dt
from demitasse.data.pairs import read_pairs
from demitasse.data.sampler import Sampler, TextBatch
from demitasse.objectives.compression import Principal
from demitasse.objectives.elastic import Elastic
from demitasse.objectives.pair_losses import InfoNCE
from demitasse.objectives.protocol import Objective, Step
from demitasse.objectives.published import Espresso, EspressoReleased, Matryoshka, Matryoshka2d, Starbucks
from demitasse.training.batches import Loader, Prepared, Share, Tokenizing
from demitasse.training.gradients import Descent, Teaching
from demitasse.training.student import Student
from demitasse.training.teacher_vectors import TeacherVectors, keys_of

ROUNDS = 7


def widths(full: int) -> tuple[int, ...]:
    """Six of them."""
    halves = [full if full == 2**power else 2**power for power in range(4, 12) if 2**power < full]
    return (*halves[-5:], full)


def objectives(full: int) -> dict[str, Objective]:
    dims = widths(full)
    return {
        "plain InfoNCE, last layer": Matryoshka((full,)),
        "Matryoshka, 6 widths": Matryoshka(dims),
        "Elastic, all depths x 6 widths": Elastic(dims),
        "Elastic with contrast": Elastic(dims, contrast=1.0),
        "Espresso, express only": Espresso(compress=None),
        "Espresso with Principal": Espresso(compress=Principal()),
        "Espresso as released (angle-emb)": EspressoReleased(),
        "Starbucks": Starbucks(),
        "Matryoshka2d, all layers and dims": Matryoshka2d(dims, layers_per_step=-1, dims_per_step=-1),
    }


def fake_teacher(folder: Path, batch: TextBatch, dims: int) -> TeacherVectors:
    keys = np.unique(keys_of(batch))
    np.save(folder / "anchor-texts.npy", keys)
    vectors = np.random.default_rng(0).normal(size=(len(keys), dims)).astype(np.float16)
    np.save(folder / "anchor-vectors.npy", vectors)
    return TeacherVectors(folder, "anchor")


def ours(base: dt.Encoder, objective: Objective, prepared: Prepared, accelerator: Accelerator) -> Callable[[], None]:
    elastic = isinstance(objective, Elastic)
    student = Student(base, last_only=objective.last_only, raw=objective.raw).to(accelerator.device)
    student.train()
    optimizer = torch.optim.AdamW(student.groups(2e-5, 2e-5, 1e-3, 0.01), fused=accelerator.device.type == "cuda")
    model, optimizer = accelerator.prepare(student, optimizer)
    with tempfile.TemporaryDirectory() as folder:
        vectors = fake_teacher(Path(folder), prepared.whole, base.full.dims) if elastic else None
    descent = Descent(accelerator, model, Teaching(objective, InfoNCE(), vectors, vectors))

    def step() -> None:
        descent.add(prepared, Step(), 0)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def theirs(folder: str, batch: TextBatch, dims: tuple[int, ...], device: torch.device, kind: str) -> Callable[[], None]:
    model = SentenceTransformer(folder, device=str(device))
    model.train()
    tokenize = getattr(model, "preprocess", model.tokenize)
    features = [
        {k: v.to(device) for k, v in tokenize(list(column)).items() if isinstance(v, torch.Tensor)}
        for column in batch.columns
    ]
    loss = st.MultipleNegativesRankingLoss(model)
    if kind == "2d":
        loss = st.Matryoshka2dLoss(model, loss, list(dims), n_layers_per_step=-1, n_dims_per_step=-1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=device.type == "cuda")
    labels = torch.zeros(len(batch.columns[0]), device=device)

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            value = loss([dict(part) for part in features], labels)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def measure(folder: str, data: list[str], batch: int) -> dict[str, dict[str, float]]:
    base = dt.load(folder)
    elastic = dt.fit_exits(base, list(read_pairs(*data).texts(400)), order=False, refine=False)
    accelerator = Accelerator(
        cpu=base.device.type == "cpu", mixed_precision="no" if base.device.type == "cpu" else "bf16"
    )
    sampler = Sampler(read_pairs(*data), batch, 0)
    drawn = sampler.next()
    prepared = Loader(Tokenizing(base.reader, (), pool_prompt=True), None, Share()).prepare(drawn, {})
    steps = {
        name: ours(elastic if isinstance(objective, Elastic) else base, objective, prepared, accelerator)
        for name, objective in objectives(base.full.dims).items()
    }
    for kind, name in (("plain", "MultipleNegativesRankingLoss"), ("2d", "Matryoshka2dLoss, all layers and dims")):
        label = f"sentence-transformers {name}"
        steps[label] = theirs(folder, drawn, widths(base.full.dims), accelerator.device, kind)
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(ROUNDS + 2):
        for name, step in steps.items():
            for timed in (False, True):  # once to warm the caches after the others, once on the clock
                begun = time.perf_counter()
                step()
                if accelerator.device.type == "cuda":
                    torch.cuda.synchronize()
                if timed and number >= 2:
                    times[name].append(1000 * (time.perf_counter() - begun))
    plain = times["plain InfoNCE, last layer"]
    rows = {}
    for name, values in times.items():
        ratio = float(np.median([value / other for value, other in zip(values, plain, strict=True)]))
        rows[name] = {"ms": round(float(np.median(values)), 2), "ratio": round(ratio, 3)}
        print(f"{name:48} {rows[name]['ms']:9.2f} ms  {ratio:6.2f}x", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--data", nargs="+", required=True)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor()
    result = {"device": device, "torch": torch.__version__, "batch": options.batch, "models": {}}
    for folder in options.models:
        print(folder)
        result["models"][Path(folder).name] = measure(folder, options.data, options.batch)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
