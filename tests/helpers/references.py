"""Every loss and objective again, slow and obvious: loops over numbers in double precision.

`columns` is an array (C, B, D) and `rows` a list of them, one for each depth; a pair loss is a function of columns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from demitasse.objectives.pair_losses import AnglE

Rows = np.ndarray
PairLoss = Callable[[Rows], float]


def batch(depths: int, columns: int, rows: int = 5, dims: int = 12, seed: int = 0) -> list[Rows]:
    """Columns of vectors at each depth: those of one row are alike, and a depth is like the one before."""
    random = np.random.default_rng(seed)
    meaning = random.normal(size=(rows, dims)) * np.linspace(1.6, 0.4, dims)
    states = meaning + 0.9 * random.normal(size=(columns, rows, dims))
    found = []
    for _ in range(depths):
        states = states + 0.5 * random.normal(size=states.shape)
        found.append(states.astype(np.float32).astype(np.float64))  # the numbers that float32 will see
    return found


def tensors(rows: Iterable[Rows], *, grad: bool = False) -> list[torch.Tensor]:
    return [torch.tensor(part, dtype=torch.float32, requires_grad=grad) for part in rows]


def difference(got: object, expected: object) -> float:
    """The largest difference, relative to the largest of what is expected."""
    if isinstance(got, torch.Tensor):
        got = got.detach().double().numpy()
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    assert got.shape == expected.shape
    return float(np.abs(got - expected).max() / max(np.abs(expected).max(), 1e-9))


def cosine(u: Rows, v: Rows) -> float:
    return float(u @ v / math.sqrt(u @ u) / math.sqrt(v @ v))


def shares(scores: Sequence[float]) -> list[float]:
    """Softmax."""
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


def choose(scores: Sequence[float], right: int) -> float:
    """Cross-entropy of choosing the `right` one."""
    return -math.log(shares(scores)[right])


def infonce(columns: Rows, temperature: float = 0.05, *, both_ways: bool = False) -> float:
    anchors, positives = columns[0], columns[1]
    candidates = [row for column in columns[1:] for row in column]
    total = 0.0
    for i in range(len(anchors)):
        loss = choose([cosine(anchors[i], row) / temperature for row in candidates], i)
        if both_ways:
            loss = (loss + choose([cosine(positives[i], row) / temperature for row in anchors], i)) / 2
        total += loss / len(anchors)
    return total


def labelled_infonce(columns: Rows, labels: Sequence[float], temperature: float = 0.05) -> float:
    count = len(columns[0])
    rows, total = [*columns[0], *columns[1]], 0.0
    for i in range(2 * count):
        if int(labels[i % count]) == 1:
            others = [j for j in range(2 * count) if j != i]
            scores = [cosine(rows[i], rows[j]) / temperature for j in others]
            total += choose(scores, others.index((i + count) % (2 * count)))
    return total / (2 * count)


def ordered(scores: Sequence[float], labels: Sequence[float], scale: float = 20.0) -> float:
    """CoSENT of scores."""
    total = 1.0
    for p, low in enumerate(labels):
        for q, high in enumerate(labels):
            if low < high:
                total += math.exp(scale * (scores[p] - scores[q]))
    return math.log(total)


def pairs(columns: Rows, labels: Sequence[float] | None) -> tuple[list[tuple[Rows, Rows]], list[float]]:
    """Pairs and their labels; of triples, the positives with 1 and the negatives with 0."""
    if labels is not None:
        return list(zip(columns[0], columns[1], strict=True)), list(labels)
    found = [(anchor, row) for column in columns[1:] for anchor, row in zip(columns[0], column, strict=True)]
    return found, [1.0 if place < len(columns[0]) else 0.0 for place in range(len(found))]


def cosent(columns: Rows, labels: Sequence[float] | None, scale: float = 20.0) -> float:
    sides, labels = pairs(columns, labels)
    return ordered([cosine(u, v) for u, v in sides], labels, scale)


def angle_score(u: Rows, v: Rows) -> float:
    """The quotient of complex numbers, each vector's first half real, with the zero that an odd width needs."""
    half = (len(u) + 1) // 2
    u, v = (np.append(row, np.zeros(2 * half - len(row))) for row in (u, v))
    length = math.sqrt(u @ u) / math.sqrt(v @ v)
    total = 0.0
    for j in range(half):
        quotient = complex(u[j], u[j + half]) * complex(v[j], -v[j + half]) / (v @ v) / length
        total += quotient.real + quotient.imag
    return abs(total)


def angle(columns: Rows, labels: Sequence[float] | None, scale: float = 20.0) -> float:
    sides, labels = pairs(columns, labels)
    return ordered([angle_score(u, v) for u, v in sides], labels, scale)


def angle_mix(columns: Rows, labels: Sequence[float] | None, weights: Sequence[float]) -> float:
    """AnglE of angle-emb 0.5.5 and later, its weights those of the cosine, in-batch, contrast and angle terms."""
    of_cosine, of_batch, of_contrast, of_angle = weights
    if labels is None and len(columns) == 2:
        return infonce(columns)
    if labels is not None:
        total = of_batch * labelled_infonce(columns, labels)
    else:
        total = (of_batch * infonce(columns[:2]) + of_contrast * infonce(columns)) / 2
    return total + of_angle * angle(columns, labels) + of_cosine * cosent(columns, labels)


def feature_divergence(teacher: Rows, student: Rows, temperature: float) -> float:
    total = 0.0
    for wanted, given in zip(teacher, student, strict=True):
        for p, q in zip(shares(wanted / temperature), shares(given / temperature), strict=True):
            total += p * math.log(p / q) / len(teacher)
    return total


def similarity_divergence(rows: Rows, columns: Rows, teacher: Rows, temperature: float) -> float:
    total = 0.0
    for i in range(len(rows)):
        others = [j for j in range(len(rows)) if j != i]
        wanted = shares([cosine(teacher[i], teacher[j]) / temperature for j in others])
        given = shares([cosine(rows[i], columns[j]) / temperature for j in others])
        total -= sum(p * math.log(q) for p, q in zip(wanted, given, strict=True)) / len(rows)
    return total


def cosine_distance(rows: Rows, others: Rows) -> float:
    return 1 - sum(cosine(u, v) for u, v in zip(rows, others, strict=True)) / len(rows)


def published_target(states: Rows, dims: int) -> Rows:
    """The compression of angle-emb. Its random start is torch's: give both sides the same seed."""
    gram = states.T @ states / math.sqrt(states.shape[1])
    weights = torch.tensor([shares(row) for row in gram], dtype=torch.float32)
    left, values, _ = torch.svd_lowrank(weights, q=dims)
    return states @ left.double().numpy() @ np.diag(values.double().numpy())


def alignment(kept: Rows, target: Rows, temperature: float) -> float:
    total = sum((kept[i, j] - target[i, j]) ** 2 for i in range(len(kept)) for j in range(kept.shape[1])) / kept.size
    return total + (temperature * feature_divergence(target, kept, temperature) if temperature > 0 else 0.0)


def published(states: Rows, dims: int, temperature: float = 1.0) -> float:
    return alignment(states[:, :dims], published_target(states, dims), temperature)


def principal(batches: Sequence[Rows], dims: int, momentum: float = 0.95, temperature: float = 1.0) -> float:
    """The loss of the last of `batches`, the mean and the squares of which are remembered from one to the next."""
    mean = square = None
    for states in batches:
        rows = np.array([row / math.sqrt(row @ row) for row in states])
        now_mean, now_square = rows.mean(0), sum(np.outer(row, row) for row in rows) / len(rows)
        mean = now_mean if mean is None else momentum * mean + (1 - momentum) * now_mean
        square = now_square if square is None else momentum * square + (1 - momentum) * now_square
    values, vectors = np.linalg.eigh(square - np.outer(mean, mean))
    axes = [vectors[:, place] for place in np.argsort(-values)[:dims]]
    axes = [axis if axis[np.abs(axis).argmax()] > 0 else -axis for axis in axes]
    target = np.array([[(row - mean) @ axis for axis in axes] for row in rows])
    kept = rows[:, :dims] - mean[:dims]
    loss = ((kept - target) ** 2).sum() / (target**2).sum()
    scale = math.sqrt(rows.shape[1])
    return loss + temperature * feature_divergence(scale * target, scale * kept, temperature)


def flat(columns: Rows) -> Rows:
    return columns.reshape(-1, columns.shape[-1])


def matryoshka(columns: Rows, loss: PairLoss, dims: dict[int, float]) -> float:
    """The weighted sum over `dims`, which gives each width its weight."""
    return sum(weight * loss(columns[..., :width]) for width, weight in dims.items())


def two_dmse(rows: list[Rows], loss: PairLoss, drawn: tuple[int, int], temperature: float, scale: float = 1.0) -> float:
    depth, width = drawn
    last, lower = rows[-1], rows[depth]
    total = loss(last) + loss(last[..., :width]) + scale * (loss(lower) + loss(lower[..., :width]))
    return total + temperature * feature_divergence(flat(last), flat(lower), temperature)


def espresso(
    rows: list[Rows],
    loss: PairLoss,
    dims: int,
    compress: Callable[[Rows, int], float] | None,
    *,
    express: bool = True,
) -> float:
    """The paper: layers 1 to n at `dims`."""
    total, layers = 0.0, len(rows) - 1
    for depth in range(1, layers + 1):
        part = loss(rows[depth][..., :dims]) if express or depth == layers else 0.0
        if compress is not None:
            part += compress(flat(rows[depth]), dims)
        total += part if depth == layers else part / (1 + math.log(depth))
    return total


def espresso_released(
    rows: list[Rows], loss: PairLoss, dims: int, compress: Callable[[Rows, int], float] | None
) -> float:
    """The code: last layer at both widths, then the embeddings and layers 1 to n - 2."""
    layers = len(rows) - 1
    total = loss(rows[-1]) + loss(rows[-1][..., :dims])
    total += compress(flat(rows[-1]), dims) if compress else 0.0
    for depth in range(layers - 1):
        part = loss(rows[depth][..., :dims]) + (compress(flat(rows[depth]), dims) if compress else 0.0)
        total += part / (1 + math.log(1 + depth)) / (layers - 1)
    return total


def adaptive(
    rows: list[Rows], losses: dict[int, float], weigh: Callable[[int], float], weights: Sequence[float]
) -> float:
    """`losses` of the last and the drawn depths; `weights` of the last, of those drawn, of the KL, its temperature."""
    last, of_last, of_prior, of_kl, temperature = len(rows) - 1, *weights
    total, drawn = of_last * losses[last], [depth for depth in losses if depth != last]
    for depth in drawn:
        total += of_prior * weigh(depth) * losses[depth] / len(drawn)
        total += of_kl * temperature * feature_divergence(flat(rows[-1]), flat(rows[depth]), temperature)
    return total


def starbucks(rows: list[Rows], loss: PairLoss, sizes: Sequence[tuple[int, int]], kl_weight: float = 0.3) -> float:
    total = 0.0
    for depth, width in sizes:
        total += loss(rows[depth][..., :width])
        if depth < len(rows) - 1:
            total += kl_weight * feature_divergence(flat(rows[-1])[:, :width], flat(rows[depth])[:, :width], 1.0)
    return total


def elastic(  # noqa: PLR0913
    rows: list[Rows],
    widths: Sequence[int],
    teacher: Rows,
    anchor: Rows,
    kept: Sequence[int],
    *,
    distil: float = 1.0,
    hold: float = 1.0,
    temperature: float = 0.05,
) -> float:
    """Without contrast; `kept` are the places of the texts whose similarities are compared."""
    total, seen = 0.0, flat(teacher)[list(kept)]
    for columns in rows:
        own = flat(columns)[list(kept)]
        for width in widths:
            near = own[:, :width]
            total += distil * similarity_divergence(near, near, seen, temperature) / len(widths) / len(rows)
        weight = 5.0 * (hold if columns is rows[-1] else 1)
        total += weight * cosine_distance(flat(columns), flat(anchor)) / len(rows)
    return total


# The numbers of the real angle-emb 0.6.1, and how its inputs are built (research/angle_golden.py).
GOLDEN = json.loads((Path(__file__).parent / "golden" / "angle_emb.json").read_text())


def golden_states(depth: int) -> torch.Tensor:
    """The pooled vectors of a depth by the rule that the file states."""
    rows = [
        [math.sin(0.37 * (i + 1) * (j + 1) + 0.3 * j + 0.9 * depth) * (1 + 0.1 * (j % 3)) for j in range(16)]
        for i in range(6)
    ]
    return torch.tensor(rows, dtype=torch.float64)


def golden_columns(rows: torch.Tensor, form: str) -> torch.Tensor:
    """Rows of interleaved pairs or triples as columns (C, B, D)."""
    count = 3 if form == "C" else 2
    return torch.stack([rows[place::count] for place in range(count)])


def golden_labels(name: str) -> torch.Tensor:
    return torch.tensor(GOLDEN["inputs"]["labels"][name], dtype=torch.float64)


def golden_angle(weights: str) -> AnglE:
    """Our AnglE with the weights that one of the golden numbers was made with."""
    names = {
        "cosine_w": "cosine_weight",
        "ibn_w": "in_batch_weight",
        "cln_w": "contrast_weight",
        "angle_w": "angle_weight",
        "angle_tau": "angle_scale",
    }
    return AnglE(**{names[name]: value for name, value in GOLDEN["inputs"]["weights"][weights].items()})
