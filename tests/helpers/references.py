"""Reference implementations of every loss and objective: slow and obvious loops over numbers in double precision.

`columns` is an array (C, B, D), `embeddings` a list of them, one for each depth; a pair loss is a function of columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch

Array = np.ndarray
PairLoss = Callable[[Array], float]


def batch(depths: int, columns: int, texts: int = 5, dims: int = 12, seed: int = 0) -> list[Array]:
    """Columns of vectors at each depth: counterparts are alike, and a depth is like the one before."""
    random = np.random.default_rng(seed)
    meaning = random.normal(size=(texts, dims)) * np.linspace(1.6, 0.4, dims)
    states = meaning + 0.9 * random.normal(size=(columns, texts, dims))
    depths_made = []
    for _ in range(depths):
        states = states + 0.5 * random.normal(size=states.shape)
        depths_made.append(states.astype(np.float32).astype(np.float64))  # exactly representable in float32
    return depths_made


def tensors(arrays: Iterable[Array], *, grad: bool = False) -> list[torch.Tensor]:
    return [torch.tensor(array, dtype=torch.float32, requires_grad=grad) for array in arrays]


def difference(got: object, expected: object) -> float:
    """The largest difference, relative to the largest expected value."""
    if isinstance(got, torch.Tensor):
        got = got.detach().double().numpy()
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    assert got.shape == expected.shape
    return float(np.abs(got - expected).max() / max(np.abs(expected).max(), 1e-9))


def cosine(u: Array, v: Array) -> float:
    return float(u @ v / math.sqrt(u @ u) / math.sqrt(v @ v))


def shares(scores: Sequence[float]) -> list[float]:
    """Softmax."""
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


def choose(scores: Sequence[float], right: int) -> float:
    """Cross-entropy of choosing the `right` one."""
    return -math.log(shares(scores)[right])


def infonce(columns: Array, temperature: float = 0.05, *, both_ways: bool = False) -> float:
    anchors, positives = columns[0], columns[1]
    candidates = [vector for column in columns[1:] for vector in column]
    total = 0.0
    for i in range(len(anchors)):
        loss = choose([cosine(anchors[i], other) / temperature for other in candidates], i)
        if both_ways:
            loss = (loss + choose([cosine(positives[i], other) / temperature for other in anchors], i)) / 2
        total += loss / len(anchors)
    return total


def labelled_infonce(columns: Array, labels: Sequence[float], temperature: float = 0.05) -> float:
    count = len(columns[0])
    vectors, total = [*columns[0], *columns[1]], 0.0
    for i in range(2 * count):
        if int(labels[i % count]) == 1:
            others = [j for j in range(2 * count) if j != i]
            scores = [cosine(vectors[i], vectors[j]) / temperature for j in others]
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


def pairs(columns: Array, labels: Sequence[float] | None) -> tuple[list[tuple[Array, Array]], list[float]]:
    """Pairs and their labels; of triples, the positives with 1 and the negatives with 0."""
    if labels is not None:
        return list(zip(columns[0], columns[1], strict=True)), list(labels)
    sides = [(anchor, other) for column in columns[1:] for anchor, other in zip(columns[0], column, strict=True)]
    return sides, [1.0 if index < len(columns[0]) else 0.0 for index in range(len(sides))]


def cosent(columns: Array, labels: Sequence[float] | None, scale: float = 20.0) -> float:
    sides, labels = pairs(columns, labels)
    return ordered([cosine(u, v) for u, v in sides], labels, scale)


def angle_score(u: Array, v: Array) -> float:
    """The quotient as complex numbers: the first half of each vector is real; an odd width is padded with a zero."""
    half = (len(u) + 1) // 2
    u, v = (np.append(vector, np.zeros(2 * half - len(vector))) for vector in (u, v))
    length = math.sqrt(u @ u) / math.sqrt(v @ v)
    total = 0.0
    for j in range(half):
        quotient = complex(u[j], u[j + half]) * complex(v[j], -v[j + half]) / (v @ v) / length
        total += quotient.real + quotient.imag
    return abs(total)


def angle(columns: Array, labels: Sequence[float] | None, scale: float = 20.0) -> float:
    sides, labels = pairs(columns, labels)
    return ordered([angle_score(u, v) for u, v in sides], labels, scale)


def angle_mix(columns: Array, labels: Sequence[float] | None, weights: Sequence[float]) -> float:
    """AnglE of angle-emb 0.5.5 and later, its weights those of the cosine, in-batch, contrast and angle terms."""
    of_cosine, of_batch, of_contrast, of_angle = weights
    if labels is None and len(columns) == 2:
        return infonce(columns)
    if labels is not None:
        total = of_batch * labelled_infonce(columns, labels)
    else:
        total = (of_batch * infonce(columns[:2]) + of_contrast * infonce(columns)) / 2
    return total + of_angle * angle(columns, labels) + of_cosine * cosent(columns, labels)


def feature_divergence(teacher: Array, student: Array, temperature: float) -> float:
    total = 0.0
    for wanted, given in zip(teacher, student, strict=True):
        for p, q in zip(shares(wanted / temperature), shares(given / temperature), strict=True):
            total += p * math.log(p / q) / len(teacher)
    return total


def similarity_divergence(vectors: Array, columns: Array, teacher: Array, temperature: float) -> float:
    total = 0.0
    for i in range(len(vectors)):
        others = [j for j in range(len(vectors)) if j != i]
        wanted = shares([cosine(teacher[i], teacher[j]) / temperature for j in others])
        given = shares([cosine(vectors[i], columns[j]) / temperature for j in others])
        total -= sum(p * math.log(q) for p, q in zip(wanted, given, strict=True)) / len(vectors)
    return total


def cosine_distance(vectors: Array, others: Array) -> float:
    return 1 - sum(cosine(u, v) for u, v in zip(vectors, others, strict=True)) / len(vectors)


def published_target(states: Array, dims: int) -> Array:
    """The compression of angle-emb. Its random start is torch's: give both sides the same seed."""
    gram = states.T @ states / math.sqrt(states.shape[1])
    weights = torch.tensor([shares(row) for row in gram], dtype=torch.float32)
    left, values, _ = torch.svd_lowrank(weights, q=dims)
    return states @ left.double().numpy() @ np.diag(values.double().numpy())


def alignment(kept: Array, target: Array, temperature: float) -> float:
    total = sum((kept[i, j] - target[i, j]) ** 2 for i in range(len(kept)) for j in range(kept.shape[1])) / kept.size
    return total + (temperature * feature_divergence(target, kept, temperature) if temperature > 0 else 0.0)


def published(states: Array, dims: int, temperature: float = 1.0) -> float:
    return alignment(states[:, :dims], published_target(states, dims), temperature)


def principal(batches: Sequence[Array], dims: int, momentum: float = 0.95, temperature: float = 1.0) -> float:
    """The loss of the last of `batches`, with the mean and squares accumulated over all of them."""
    mean = square = None
    for states in batches:
        vectors = np.array([state / math.sqrt(state @ state) for state in states])
        now_mean, now_square = vectors.mean(0), sum(np.outer(unit, unit) for unit in vectors) / len(vectors)
        mean = now_mean if mean is None else momentum * mean + (1 - momentum) * now_mean
        square = now_square if square is None else momentum * square + (1 - momentum) * now_square
    values, columns = np.linalg.eigh(square - np.outer(mean, mean))
    axes = [columns[:, index] for index in np.argsort(-values)[:dims]]
    axes = [axis if axis[np.abs(axis).argmax()] > 0 else -axis for axis in axes]
    target = np.array([[(unit - mean) @ axis for axis in axes] for unit in vectors])
    kept = vectors[:, :dims] - mean[:dims]
    loss = ((kept - target) ** 2).sum() / (target**2).sum()
    scale = math.sqrt(vectors.shape[1])
    return loss + temperature * feature_divergence(scale * target, scale * kept, temperature)


def flat(columns: Array) -> Array:
    return columns.reshape(-1, columns.shape[-1])


def matryoshka(columns: Array, loss: PairLoss, dims: dict[int, float]) -> float:
    """The weighted sum over `dims`, which gives each width its weight."""
    return sum(weight * loss(columns[..., :width]) for width, weight in dims.items())


def two_dmse(
    embeddings: list[Array], loss: PairLoss, drawn: tuple[int, int], temperature: float, scale: float = 1.0
) -> float:
    depth, width = drawn
    last, lower = embeddings[-1], embeddings[depth]
    total = loss(last) + loss(last[..., :width]) + scale * (loss(lower) + loss(lower[..., :width]))
    return total + temperature * feature_divergence(flat(last), flat(lower), temperature)


def espresso(
    embeddings: list[Array],
    loss: PairLoss,
    dims: int,
    compress: Callable[[Array, int], float] | None,
    *,
    express: bool = True,
) -> float:
    """The paper: layers 1 to n at `dims`."""
    total, layers = 0.0, len(embeddings) - 1
    for depth in range(1, layers + 1):
        part = loss(embeddings[depth][..., :dims]) if express or depth == layers else 0.0
        if compress is not None:
            part += compress(flat(embeddings[depth]), dims)
        total += part if depth == layers else part / (1 + math.log(depth))
    return total


def espresso_released(
    embeddings: list[Array], loss: PairLoss, dims: int, compress: Callable[[Array, int], float] | None
) -> float:
    """The code: last layer at both widths, then the embeddings and layers 1 to n - 2."""
    layers = len(embeddings) - 1
    total = loss(embeddings[-1]) + loss(embeddings[-1][..., :dims])
    total += compress(flat(embeddings[-1]), dims) if compress else 0.0
    for depth in range(layers - 1):
        part = loss(embeddings[depth][..., :dims]) + (compress(flat(embeddings[depth]), dims) if compress else 0.0)
        total += part / (1 + math.log(1 + depth)) / (layers - 1)
    return total


def adaptive(
    embeddings: list[Array], losses: dict[int, float], weigh: Callable[[int], float], weights: Sequence[float]
) -> float:
    """`losses` of the last and the drawn depths; `weights` of the last, of those drawn, of the KL, its temperature."""
    last, of_last, of_prior, of_kl, temperature = len(embeddings) - 1, *weights
    total, drawn = of_last * losses[last], [depth for depth in losses if depth != last]
    for depth in drawn:
        total += of_prior * weigh(depth) * losses[depth] / len(drawn)
        total += of_kl * temperature * feature_divergence(flat(embeddings[-1]), flat(embeddings[depth]), temperature)
    return total


def starbucks(
    embeddings: list[Array], loss: PairLoss, sizes: Sequence[tuple[int, int]], kl_weight: float = 0.3
) -> float:
    total = 0.0
    for depth, width in sizes:
        total += loss(embeddings[depth][..., :width])
        if depth < len(embeddings) - 1:
            total += kl_weight * feature_divergence(
                flat(embeddings[-1])[:, :width], flat(embeddings[depth])[:, :width], 1.0
            )
    return total


def elastic(  # noqa: PLR0913
    embeddings: list[Array],
    widths: Sequence[int],
    teacher: Array,
    anchor: Array,
    kept: Sequence[int],
    *,
    distil: float = 1.0,
    hold: float = 1.0,
    temperature: float = 0.05,
) -> float:
    """Without contrast; `kept` are the indices of the texts whose similarities are compared."""
    total, seen = 0.0, flat(teacher)[list(kept)]
    for columns in embeddings:
        own = flat(columns)[list(kept)]
        for width in widths:
            near = own[:, :width]
            total += distil * similarity_divergence(near, near, seen, temperature) / len(widths) / len(embeddings)
        weight = 5.0 * (hold if columns is embeddings[-1] else 1)
        total += weight * cosine_distance(flat(columns), flat(anchor)) / len(embeddings)
    return total
