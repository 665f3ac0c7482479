"""How much of ESE's loss and gradient is learn-to-compress, on models as they were released.

    python research/espresso_halves.py MODEL MODEL ... --train nli-triples.jsonl.gz \\
        --json research/results/espresso-halves.json

Learn-to-express is a pair loss between cosines: however long the vectors are, it is of the same size. The published
learn-to-compress is a squared difference between vectors as they are. Which of the two a step follows is therefore a
matter of how long a model's vectors are, and this measures it: one batch, no dropout, no step taken.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor

import demitasse as dt
from demitasse.data.pairs import read_pairs
from demitasse.data.sampler import Sampler
from demitasse.host.json_files import save_result
from demitasse.objectives.protocol import Step
from demitasse.training.gradients import by_column
from demitasse.training.student import Student

BATCH, SEED = 64, 0


def halves(student: Student, rows: Tensor, objective: dt.Espresso | dt.EspressoReleased) -> dict[str, float]:
    """Loss and length of the gradient of each half, and how far the whole gradient points where the pairs do."""
    without = None if isinstance(objective, dt.Espresso) else False
    parts = {"whole": objective, "express": replace(objective, compress=without)}
    losses, slopes = {}, {}
    for name, part in parts.items():
        torch.manual_seed(SEED)  # the target of learn-to-compress is a random SVD
        loss = part(list(rows), partial(dt.InfoNCE(), scores=None), Step(Random(SEED), {}))
        found = torch.autograd.grad(loss, list(student.parameters()), retain_graph=True, allow_unused=True)
        losses[name] = loss.item()
        slopes[name] = torch.cat([each.flatten() for each in found if each is not None]).double()
    compress = slopes["whole"] - slopes["express"]
    return {
        "express_loss": losses["express"],
        "compress_loss": losses["whole"] - losses["express"],
        "express_gradient": slopes["express"].norm().item(),
        "compress_gradient": compress.norm().item(),
        "cosine_of_whole_and_express": torch.cosine_similarity(slopes["whole"], slopes["express"], dim=0).item(),
    }


def measured(model: str, train: str) -> dict[str, Any]:
    encoder = dt.load(model)
    batch = Sampler(read_pairs(train), BATCH, SEED).next()
    student = Student(encoder, raw=True).eval()
    texts = [text for column in batch.columns for text in column]
    rows = by_column(student(encoder.reader.read(texts)), len(batch.columns))
    lengths = rows.detach().norm(dim=-1).flatten(1).median(-1).values
    return {
        "model": Path(model).name,
        "length_of_vectors": [round(length.item(), 3) for length in lengths],
        "espresso": halves(student, rows, dt.Espresso()),
        "espresso-released": halves(student, rows, dt.EspressoReleased()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--train", required=True)
    parser.add_argument("--json", required=True, type=Path)
    given = parser.parse_args()
    found = {
        "demitasse": dt.__version__,
        "train": Path(given.train).name,
        "batch": BATCH,
        "models": [measured(model, given.train) for model in given.models],
    }
    save_result(found, given.json)
    for row in found["models"]:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
