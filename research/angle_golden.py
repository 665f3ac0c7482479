"""Numbers made with the real angle-emb 0.6.1, for tests to hold our AnglE and ESE losses against.

    python research/angle_golden.py --json tests/helpers/golden/angle_emb.json

Needs an environment of its own, a few hundred MB, never our own dependencies:

    pip install torch transformers peft accelerate datasets bitsandbytes boltons scipy scikit-learn
    pip install --no-deps angle-emb==0.6.1

(`--no-deps` since angle-emb pins exact versions of packages that its losses do not use.) Every loss below is the
library's own code, called and not copied. A model that hands out given tensors as hidden states of one token stands
in for a transformer, so that pooling `cls` gives exactly those tensors.

All inputs follow one rule, `states`, which is written into the JSON too. Everything is float64 on the CPU.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from angle_emb import angle
from torch import Tensor, nn
from transformers import TrainingArguments

ROWS, DIMS, WIDTH, LAYERS = 6, 16, 8, 4
RULE = (
    "X[depth][i][j] = sin(0.37 * (i + 1) * (j + 1) + 0.3 * j + 0.9 * depth) * (1 + 0.1 * (j % 3)), "
    "row i from 0 to 5, dimension j from 0 to 15, float64; depth 0 is the embedding output, depth 4 the last layer"
)
BINARY = [1.0, 0.0, 1.0]  # one label a pair
GRADED = [0.6, 0.0, 1.0]
WEIGHTS: dict[str, dict[str, float]] = {
    "default": {},
    "recipe": {"cosine_w": 0.0, "ibn_w": 10.0, "cln_w": 1.0, "angle_w": 1.0, "angle_tau": 20.0},
    "all": {"cosine_w": 0.7, "ibn_w": 1.5, "cln_w": 2.0, "angle_w": 0.4},
}
TEMPERATURES = (1.0, 0.5)
LAYOUT = {
    "A": "rows 2p and 2p+1 are text1 and text2 of pair p, both with its label: labels have shape (6, 1)",
    "B": "rows 2p and 2p+1 are query and positive of pair p; labels are not read",
    "C": "rows 3t, 3t+1 and 3t+2 are query, positive and negative of triple t; labels are not read",
}


def states(depth: int) -> Tensor:
    """The pooled vectors of `depth`, (ROWS, DIMS), by RULE."""
    return torch.tensor(
        [
            [math.sin(0.37 * (i + 1) * (j + 1) + 0.3 * j + 0.9 * depth) * (1 + 0.1 * (j % 3)) for j in range(DIMS)]
            for i in range(ROWS)
        ],
        dtype=torch.float64,
    )


def zigzag(labels: list[float]) -> Tensor:
    """One label a pair, as the library's collator lays them out: one a row, (2 x pairs, 1)."""
    return torch.tensor(labels, dtype=torch.float64).repeat_interleave(2)[:, None]


def number(value: Tensor) -> float:
    return float(f"{value.item():.10g}")


def numbers(rows: Tensor) -> list[list[float]]:
    return [[number(value) for value in row] for row in rows]


class GivenStates(nn.Module):
    """Stands in for a transformer: its hidden states are the given tensors, each as one token a text."""

    def __init__(self, pooled: list[Tensor]):
        super().__init__()
        self.pooled = pooled
        self.config = SimpleNamespace(num_hidden_layers=len(pooled) - 1)

    def forward(self, **_: object) -> SimpleNamespace:
        hidden = tuple(rows[:, None, :] for rows in self.pooled)
        return SimpleNamespace(hidden_states=hidden, last_hidden_state=hidden[-1])


def ese_trainer(pooled: list[Tensor], **options: Any) -> angle.AngleESETrainer:
    """The library's trainer, as its own `fit` makes it, around given pooled vectors of every depth."""
    model = GivenStates(pooled)
    with tempfile.TemporaryDirectory() as place:
        return angle.AngleESETrainer(
            pooler=angle.Pooler(model, pooling_strategy="cls", padding_side="right"),
            model=model,
            args=TrainingArguments(output_dir=place, use_cpu=True, report_to=[]),
            ese_compression_size=WIDTH,
            **options,
        )


def single_losses() -> dict[str, Any]:
    """The four losses alone, at the last depth, full width and first WIDTH dimensions."""
    found = {}
    for name, rows in {"full": states(LAYERS), "slim": states(LAYERS)[:, :WIDTH]}.items():
        pairs, triples = (rows[::2], rows[1::2]), (rows[::3], rows[1::3], rows[2::3])
        found[name] = {
            "cosine_graded_tau20": angle.cosine_loss(zigzag(GRADED), rows, 20.0),
            "cosine_binary_tau20": angle.cosine_loss(zigzag(BINARY), rows, 20.0),
            "angle_sum_graded_tau20": angle.angle_loss(zigzag(GRADED), rows, 20.0, pooling_strategy="sum"),
            "angle_sum_graded_tau1": angle.angle_loss(zigzag(GRADED), rows, 1.0, pooling_strategy="sum"),
            "angle_mean_graded_tau20": angle.angle_loss(zigzag(GRADED), rows, 20.0, pooling_strategy="mean"),
            "in_batch_negative_binary_tau20": angle.in_batch_negative_loss(zigzag(BINARY), rows, 20.0),
            "in_batch_negative_graded_tau20": angle.in_batch_negative_loss(zigzag(GRADED), rows, 20.0),
            "contrastive_pairs_tau20": angle.contrastive_with_negative_loss(*pairs, tau=20.0),
            "contrastive_triples_tau20": angle.contrastive_with_negative_loss(*triples, tau=20.0),
            "contrastive_triples_without_negatives_tau20": angle.contrastive_with_negative_loss(*triples[:2], tau=20.0),
        }
    return {name: {key: number(loss) for key, loss in losses.items()} for name, losses in found.items()}


def whole_losses() -> dict[str, Any]:
    """AngleLoss by weights and format, at the last depth and full width."""
    cases = {"A_binary": ("A", BINARY), "A_graded": ("A", GRADED), "B": ("B", BINARY), "C": ("C", BINARY)}
    return {
        weights: {
            name: number(angle.AngleLoss(dataset_format=form, **options)(zigzag(labels), states(LAYERS)))
            for name, (form, labels) in cases.items()
        }
        for weights, options in WEIGHTS.items()
    }


def ese_loss(form: str, *, compress: bool, temperature: float) -> tuple[dict[str, Any], dict[int, Tensor]]:
    """One whole ESE loss with its gradients, and the compress targets it used, by depth, in order of use."""
    pooled = [states(depth).requires_grad_() for depth in range(LAYERS + 1)]
    trainer = ese_trainer(
        pooled,
        loss_kwargs=WEIGHTS["recipe"],
        dataset_format=form,
        ese_kl_temperature=temperature,
        apply_ese_pca=compress,
    )
    targets: dict[int, Tensor] = {}
    pca_compress = trainer.pca_compress

    def recorded(rows: Tensor, width: int) -> Tensor:
        target = pca_compress(rows, width)
        assert not target.requires_grad
        targets[next(depth for depth, own in enumerate(pooled) if torch.equal(own, rows))] = target
        return target

    trainer.pca_compress = recorded
    torch.manual_seed(0)
    loss = trainer.compute_loss(trainer.model, {"labels": zigzag(BINARY)})
    loss.backward()
    gradients = [torch.zeros_like(rows) if rows.grad is None else rows.grad for rows in pooled]
    case = {
        "format": form,
        "apply_ese_pca": compress,
        "temperature": temperature,
        "loss": number(loss),
        "gradient_first_8_dims": [number(rows[:, :WIDTH].abs().sum()) for rows in gradients],
        "gradient_other_dims": [number(rows[:, WIDTH:].abs().sum()) for rows in gradients],
    }
    return case, targets


def ese_losses() -> dict[str, Any]:
    cases, used = [], []
    for form in ("C", "A"):
        for compress in (True, False):
            for temperature in TEMPERATURES:
                case, targets = ese_loss(form, compress=compress, temperature=temperature)
                cases.append(case)
                used += [targets] if compress else []
    first = used[0]
    for other in used:  # same rows, same seed, same order: one set of targets serves every case
        assert list(other) == list(first)
        assert all(torch.equal(other[depth], first[depth]) for depth in first)
    return {
        "weights": "recipe",
        "labels": "binary",
        "cases": cases,
        "order_of_targets": list(first),
        "targets": {str(depth): numbers(first[depth]) for depth in sorted(first)},
    }


def alignment_losses() -> dict[str, Any]:
    """The alignment loss alone, where input and target both follow RULE."""
    trainer = ese_trainer([states(depth) for depth in range(LAYERS + 1)])
    rows, targets = states(LAYERS)[:, :WIDTH], states(LAYERS + 1)[:, :WIDTH]
    return {
        "rows": "first 8 dimensions of X[4]",
        "targets": "first 8 dimensions of X[5], by the same rule",
        "loss_by_temperature": {
            str(temperature): number(trainer.compute_distillation_loss(rows, targets, kl_temperature=temperature))
            for temperature in (*TEMPERATURES, 0.0)
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    assert version("angle_emb") == "0.6.1"
    found = {
        "made_by": "research/angle_golden.py",
        "versions": {name: version(name) for name in ("angle_emb", "torch", "transformers", "peft")},
        "inputs": {
            "rule": RULE,
            "rows": ROWS,
            "dims": DIMS,
            "compression_size": WIDTH,
            "layers": LAYERS,
            "labels": {"binary": BINARY, "graded": GRADED},
            "layout": LAYOUT,
            "weights": WEIGHTS,
            "check": {"X[0][0][0]": number(states(0)[0, 0]), "X[4][5][15]": number(states(4)[5, 15])},
        },
        "losses": single_losses(),
        "angle_loss": whole_losses(),
        "alignment": alignment_losses(),
        "ese": ese_losses(),
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
