"""Golden numbers from angle-emb 0.6.1 itself (research/angle_golden.py), each beside our own value."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from demitasse.objectives import losses
from demitasse.objectives.compression import alignment
from demitasse.objectives.pair_losses import AnglE
from demitasse.objectives.protocol import Step
from demitasse.objectives.published import EspressoReleased

GOLDEN = json.loads((Path(__file__).parent / "golden" / "angle_emb.json").read_text())


def golden_states(depth: int) -> torch.Tensor:
    """The pooled vectors of a depth, by the rule that the file states."""
    vectors = [
        [math.sin(0.37 * (i + 1) * (j + 1) + 0.3 * j + 0.9 * depth) * (1 + 0.1 * (j % 3)) for j in range(16)]
        for i in range(6)
    ]
    return torch.tensor(vectors, dtype=torch.float64)


def golden_columns(vectors: torch.Tensor, form: str) -> torch.Tensor:
    """Interleaved pairs ("A") or triples ("C") as columns (C, B, D)."""
    count = 3 if form == "C" else 2
    return torch.stack([vectors[column::count] for column in range(count)])


def golden_labels(name: str) -> torch.Tensor:
    return torch.tensor(GOLDEN["inputs"]["labels"][name], dtype=torch.float64)


def golden_angle(weights: str) -> AnglE:
    """Our AnglE with the weights that one of the golden numbers was computed with."""
    names = {
        "cosine_w": "cosine_weight",
        "ibn_w": "in_batch_weight",
        "cln_w": "contrast_weight",
        "angle_w": "angle_weight",
        "angle_tau": "angle_scale",
    }
    return AnglE(**{names[name]: value for name, value in GOLDEN["inputs"]["weights"][weights].items()})


def golden_losses() -> Iterator[tuple[str, float, float]]:
    """The name, our value and the golden one, for each single loss of angle-emb."""
    graded, binary = golden_labels("graded"), golden_labels("binary")
    for name, width in {"full": 16, "slim": 8}.items():
        vectors = golden_states(4)[:, :width]
        (left, right), triples = golden_columns(vectors, "A"), golden_columns(vectors, "C")
        cosines = losses.cosine_pairs(left, right)
        ours = {
            "cosine_graded_tau20": losses.cosent(cosines, graded),
            "cosine_binary_tau20": losses.cosent(cosines, binary),
            "angle_sum_graded_tau20": losses.angle(left, right, graded),
            "angle_sum_graded_tau1": losses.angle(left, right, graded, scale=1.0),
            "angle_mean_graded_tau20": losses.angle(left, right, graded, scale=20.0 / width),
            "in_batch_negative_binary_tau20": losses.labelled_infonce(left, right, binary),
            "in_batch_negative_graded_tau20": losses.labelled_infonce(left, right, graded),
            "contrastive_pairs_tau20": losses.infonce(left, right),
            "contrastive_triples_tau20": losses.infonce(*triples),
            "contrastive_triples_without_negatives_tau20": losses.infonce(*triples[:2]),
        }
        for key, golden in GOLDEN["losses"][name].items():
            yield f"{name} {key}", ours[key].item(), golden


def golden_mixes() -> Iterator[tuple[str, float, float]]:
    """The same for the full AnglE loss, by weights and format."""
    for weights, values in GOLDEN["angle_loss"].items():
        for name, golden in values.items():
            form, _, labels = name.partition("_")
            columns = golden_columns(golden_states(4), form)
            scores = golden_labels(labels) if labels else None
            yield f"{weights} {name}", golden_angle(weights)(columns, [16], scores).item(), golden


def golden_alignments() -> list[tuple[str, float, float]]:
    """The same for the alignment of learn-to-compress, by temperature."""
    kept, target = (golden_states(depth)[:, :8] for depth in (4, 5))
    values = GOLDEN["alignment"]["loss_by_temperature"]
    return [(name, alignment(kept, target, float(name)).item(), golden) for name, golden in values.items()]


def golden_ese() -> Iterator[tuple[str, Callable[[], tuple[torch.Tensor, list[torch.Tensor]]], dict[str, float]]]:
    """Each ESE case of angle-emb: its name, a call that returns our loss and its states, and the golden values."""
    for case in GOLDEN["ese"]["cases"]:

        def ours(case: dict[str, object] = case) -> tuple[torch.Tensor, list[torch.Tensor]]:
            states = [golden_states(depth).requires_grad_() for depth in range(5)]
            scores = golden_labels("binary") if case["format"] == "A" else None
            angle = golden_angle("recipe")

            def loss(columns: torch.Tensor, widths: Sequence[int]) -> torch.Tensor:
                return angle(columns, widths, scores)

            objective = EspressoReleased(8, case["temperature"], case["apply_ese_pca"])
            embeddings = [golden_columns(state, case["format"]) for state in states]
            return objective(embeddings, loss, Step()), states

        yield f"{case['format']} {case['apply_ese_pca']} {case['temperature']}", ours, case


class GoldenTargets:
    """The targets that angle-emb computed, looked up by the states they belong to."""

    def __init__(self) -> None:
        self.targets = {int(depth): torch.tensor(target).double() for depth, target in GOLDEN["ese"]["targets"].items()}

    def __call__(self, states: torch.Tensor, dims: int) -> torch.Tensor:
        """Our vectors come column by column, theirs text by text."""
        for depth, target in self.targets.items():
            for form in "AC":
                if torch.equal(golden_columns(golden_states(depth), form).flatten(0, 1), states):
                    return golden_columns(target, form).flatten(0, 1)
        raise AssertionError("angle-emb has no target for these states")
