"""How far a score would move on other data of the same kind: the bootstrap, with the same draws for every model.

The items of a task (its pairs or its queries) are drawn with replacement, as many as there are. The draws depend only
on the content of the task and the seed, so that two models or two cuts are scored on the same draws and their
difference is paired. A draw is stored as how often each item was drawn, which turns every metric into a weighted one
over an order of items that is the same for all draws. Each value is exactly the metric of the drawn items, at a
fraction of the cost of sorting them again for each draw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from demitasse.errors import DataError
from demitasse.evaluation.metrics import Indices, Values, steps_down
from demitasse.evaluation.tasks import SCALE, PairTask, Scores, Task

RESAMPLES = 1000
MOST_RESAMPLES = 100_000  # their scores are kept in memory
_ROUNDS = 6  # of merging neighbours; little is left after that
_BLOCK = 32  # draws processed at a time: with a few thousand items, they fit a processor's cache

Counts = npt.NDArray[np.intp]
Steps = tuple[Indices, Indices]  # what `steps_down` returns


def resampled(task: Task, scores: Scores, resamples: int = RESAMPLES, seed: int = 0) -> Values:
    """The task's metric x 100 on each of `resamples` draws of its items.

    >>> task = PairTask("cups", "cups", ("a",) * 9, ("b",) * 9, np.arange(9.0), binary=False)
    >>> resampled(task, Scores(100.0, {}, units=np.arange(9.0)), resamples=3).round().tolist()
    [100.0, 100.0, 100.0]
    """
    values: Values = resampled_many(task, [scores], resamples, seed)[0]
    return values


def resampled_many(task: Task, scores: Sequence[Scores], resamples: int = RESAMPLES, seed: int = 0) -> Values:
    """`resampled` for each of `scores`, on the same draws: one row per score, one column per draw."""
    if resamples < 1:
        raise DataError(f"resamples is {resamples}; give a whole number of at least 1, such as {RESAMPLES}")
    units = np.stack([one.units for one in scores])
    blocks = _draws(task.sha256, units.shape[1], resamples, seed)
    parts: list[Values]
    if not isinstance(task, PairTask):
        parts = [units @ counts.T / len(task.queries) for counts in blocks]
    elif task.binary:
        steps = [steps_down(values) for values in units]
        parts = [_average_precisions(steps, task.gold, counts) for counts in blocks]
    else:
        orders = [_Order(values) for values in units]
        parts = [_spearmans(orders, task.gold, counts) for counts in blocks]
    return SCALE * np.concatenate(parts, axis=1)


def interval(values: Values, level: float = 0.95) -> tuple[float, float]:
    """The ends of the middle `level` of `values`.

    >>> interval(np.arange(1001.0), level=0.5)
    (250.0, 750.0)
    """
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def paired_p(differences: Values) -> float:
    """The two-sided p-value of a difference from its draws; never 0.

    Twice the share of draws on the rarer side of 0, with one draw added to both counts, since no number of draws shows
    that something cannot happen.

    >>> paired_p(np.full(999, 1.5))
    0.002
    """
    rarer = min(np.count_nonzero(differences <= 0), np.count_nonzero(differences >= 0))
    return min(1.0, 2 * (int(rarer) + 1) / (len(differences) + 1))


def _draws(content: str, items: int, resamples: int, seed: int) -> Iterator[Counts]:
    """How often each item (across) is in each draw (down), in blocks of draws; the block size does not change them."""
    key = hashlib.sha256(f"{seed} {content}".encode()).digest()
    generator = np.random.default_rng(int.from_bytes(key, "big"))
    for start in range(0, resamples, _BLOCK):
        count = min(_BLOCK, resamples - start)
        yield np.stack([np.bincount(generator.integers(items, size=items), minlength=items) for _ in range(count)])


def _spearmans(orders: Sequence[_Order], gold: Values, counts: Counts) -> Values:
    """Spearman's correlation of each order with `gold` in each draw; 0 if one side is constant.

    Twice an item's rank, minus the mean, is the number of drawn items below it minus the number above it. Let w be how
    often an item was drawn, and v be w times that number in the order of `gold`. The covariance of the ranks is the sum
    of v[i] * w[j] over all i above j, minus that over all i below j. Since all v add up to 0, it is also twice the
    first sum plus the sum of v[i] * w[i] over all items.
    """
    order, starts = steps_down(gold)
    sizes = _step_sums(counts, (order, starts))
    items = len(gold)
    # w and v of each item; below them a line of zeros, and room for the tied items that an order merges.
    table = np.zeros((items + 1 + max(len(one.ties) for one in orders), 2, len(counts)))
    table[:items, 0] = counts.T
    below = items + sizes - 2 * np.cumsum(sizes, axis=1)
    table[order, 1] = np.repeat(below, np.diff(starts, append=items), axis=1).T * table[order, 0]
    alone = _own_sums(table[:items])
    spread = items**3 - (sizes**3).sum(1)  # 3 times the variance of the ranks, reduced by ties
    values = []
    for one in orders:
        products, cubes = alone + one.merge(table)
        both = np.sqrt(spread * (items**3 - cubes)) / 3
        covariance = 2 * _sum_above(np.take(table, one.arranged, axis=0)) + products
        values.append(np.divide(covariance, both, out=np.zeros_like(both), where=both > 0))
    return np.stack(values)


class _Order:
    """An order of items in which tied ones count as one, arranged for `_sum_above`."""

    def __init__(self, values: Values) -> None:
        order, starts = steps_down(values)
        sizes = np.diff(starts, append=len(order))
        several = sizes > 1
        self.zeros = len(order)
        self.tied = order[np.repeat(several, sizes)]
        self.ties = np.cumsum(sizes[several]) - sizes[several]  # where each tie starts in `tied`
        steps = order[starts]
        steps[several] = self.zeros + 1 + np.arange(len(self.ties))
        padded = np.append(steps, np.full(-len(steps) % (1 << _ROUNDS), self.zeros))
        self.arranged: Indices = padded.reshape(-1, *(2,) * _ROUNDS).T.ravel()

    def merge(self, table: Values) -> Values:
        """Write the merged line of each tie to the table; returns by how much that changes `_own_sums`."""
        if not len(self.ties):
            return np.zeros((2, table.shape[2]))
        members = table[self.tied]
        merged = np.add.reduceat(members, self.ties, axis=0)
        table[self.zeros + 1 :][: len(merged)] = merged
        return _own_sums(merged) - _own_sums(members)


def _own_sums(table: Values) -> Values:
    """The sums of w * v and of w cubed over the lines of the table."""
    w, v = table[:, 0], table[:, 1]
    return np.stack([np.einsum("rd,rd->d", w, v), np.einsum("rd,rd,rd->d", w, w, w)])


def _sum_above(table: Values) -> Values:
    """The sum of v[i] * w[j] over all lines i above j; overwrites `table`.

    Each round merges pairs of neighbours into one line with the sums of both. The lines are arranged so that the upper
    neighbours are the first half of the table and the lower ones the second: whole blocks of memory are added, for all
    draws at once, where running sums would go step by step.
    """
    total: Values = np.zeros(table.shape[2])
    for _ in range(_ROUNDS):
        half = len(table) // 2
        upper, lower = table[:half], table[half:]
        total += np.einsum("rd,rd->d", upper[:, 1], lower[:, 0])
        upper += lower
        table = upper
    through = np.cumsum(table[:, 0], axis=0)
    total += np.einsum("rd,rd->d", table[:, 1], through[-1] - through)
    return total


def _average_precisions(steps: Iterable[Steps], labels: Values, counts: Counts) -> Values:
    """The average precision of each order in each draw; 0 if no pair labelled 1 was drawn."""
    labelled = counts * labels.astype(int)
    values = []
    for one in steps:
        matches = _step_sums(labelled, one)
        matches_so_far, seen = np.cumsum(matches, axis=1), np.cumsum(_step_sums(counts, one), axis=1)
        values.append((matches * matches_so_far / np.maximum(seen, 1)).sum(1) / np.maximum(matches_so_far[:, -1], 1))
    return np.stack(values)


def _step_sums(values: Counts, steps: Steps) -> Counts:
    """The sums of the columns of `values` within each step."""
    order, starts = steps
    ordered = np.take(values, order, axis=1)
    if len(starts) == len(order):
        return ordered
    ends = np.append(starts[1:], len(order)) - 1
    return np.diff(np.cumsum(ordered, axis=1)[:, ends], axis=1, prepend=0)  # several times as fast as add.reduceat
