"""How long a batch takes, learnt from the batches that were run. Pure functions.

    seconds = fixed + per_layer x deepest + per_token x tokens + per_token_layer x (tokens x layers, of each text)

All four numbers are at least 0, so more layers never seem to cost less. They start from a guess (a few batches timed at
the start, or a profile) and follow what is measured. What is learnt is the factor of each of the four over its first
guess, by least squares in which older batches count less. Where all batches are alike and cannot tell the four apart,
their factors stay together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from demitasse.planning.profile import MeasuredCut

_KEPT = 0.97  # of the weight of the batches before, at each batch: the last 30 or so count
_TOGETHER = 0.05  # weight, in batches, of the wish that all factors are equal
_SURPRISE = 4.0  # a batch that took longer than so many times what was expected counts as that
_SWEEPS = 4
_LEAST = (2e-5, 2e-6, 1e-8, 1e-8)  # so that every part can be learnt
_WORTH_A_START = 8  # the tokens of a batch should take so many times as long as its start
_TYPICAL_TOKENS = 16  # of a text in a profile, which does not say


class Work(NamedTuple):
    """The size of a batch."""

    deepest: int
    tokens: int
    token_layers: int  # tokens x layers, summed over texts

    @property
    def parts(self) -> tuple[float, float, float, float]:
        """What the four numbers are multiplied by."""
        return 1, self.deepest, self.tokens, self.token_layers


@dataclass(frozen=True)
class Costs:
    """What is known about how long batches take."""

    guess: tuple[float, ...]  # fixed, per layer, per token, per token and layer
    factors: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0)  # of each guess, as learnt
    products: tuple[tuple[float, ...], ...] = ((0.0,) * 4,) * 4  # of shares, weighted by age
    targets: tuple[float, ...] = (0.0,) * 4
    speed: float = 1.0  # how long batches take in all, over the guess

    def seconds(self, work: Work) -> float:
        """How long `work` will take on one worker."""
        return sum(
            part * guess * factor for part, guess, factor in zip(work.parts, self.guess, self.factors, strict=True)
        )

    def per_token(self, layers: int) -> float:
        """Seconds of one more token in a batch at this depth."""
        return self.guess[2] * self.factors[2] + self.guess[3] * self.factors[3] * layers

    def per_batch(self, layers: int) -> float:
        """Seconds of a batch of this depth, besides its tokens."""
        return self.guess[0] * self.factors[0] + self.guess[1] * self.factors[1] * layers


@dataclass(frozen=True)
class BatchSize:
    """How large a batch may be."""

    tokens: int
    seconds: float  # about: a longer batch would make those wait who come while it runs


def full_batch(costs: Costs, size: BatchSize, layers: int) -> int:
    """How many tokens a full batch has at a depth: what can be done in its time, but not mostly starting it."""
    per_token = max(costs.per_token(layers), 1e-12)
    start = costs.per_batch(layers)
    return min(size.tokens, max(1, int(max(size.seconds - start, _WORTH_A_START * start) / per_token)))


def rate(costs: Costs, size: BatchSize, layers: int) -> float:
    """Seconds of one token at a depth, with its share of the start of a full batch."""
    return costs.per_token(layers) + costs.per_batch(layers) / full_batch(costs, size, layers)


def learnt(costs: Costs, work: Work, seconds: float) -> Costs:
    """`costs` after a batch that took `seconds`.

    >>> costs = Costs((1e-4, 1e-5, 1e-6, 1e-5))
    >>> work = Work(deepest=6, tokens=100, token_layers=600)
    >>> for _ in range(200):
    ...     costs = learnt(costs, work, seconds=0.02)
    >>> round(costs.seconds(work), 4)
    0.02
    """
    guessed = [part * guess for part, guess in zip(work.parts, costs.guess, strict=True)]
    expected = costs.seconds(work)
    share = [part / expected for part in guessed]  # so that small and large batches count alike
    ratio = min(max(seconds / expected, 1 / _SURPRISE), _SURPRISE)
    products = tuple(
        tuple(_KEPT * old + share[row] * share[column] for column, old in enumerate(of_row))
        for row, of_row in enumerate(costs.products)
    )
    targets = tuple(_KEPT * old + own * ratio for old, own in zip(costs.targets, share, strict=True))
    speed = costs.speed + (1 - _KEPT) * (ratio * expected / sum(guessed) - costs.speed)
    return replace(
        costs,
        products=products,
        targets=targets,
        speed=speed,
        factors=_solved(products, targets, costs.factors, speed),
    )


def _solved(
    products: Sequence[Sequence[float]], targets: Sequence[float], factors: Sequence[float], speed: float
) -> tuple[float, ...]:
    """The factors, none below 0, with the least error; a few sweeps are enough from those of the last batch."""
    found = list(factors)
    for _ in range(_SWEEPS):
        for row, of_row in enumerate(products):
            others = sum(value * found[column] for column, value in enumerate(of_row) if column != row)
            found[row] = max(0.0, (targets[row] - others + _TOGETHER * speed) / (of_row[row] + _TOGETHER))
    return tuple(found)


def guess_from_runs(runs: dict[tuple[int, int], float]) -> Costs:
    """Costs from the seconds of batches of (tokens, layers): few and many tokens, at no layers and at all of them.

    >>> costs = guess_from_runs({(10, 0): 0.0011, (10, 2): 0.0033, (100, 0): 0.002, (100, 2): 0.006})
    >>> [round(value, 6) for value in costs.guess]
    [0.001, 0.001, 1e-05, 1e-05]
    """
    few, many = sorted({tokens for tokens, _ in runs})
    shallow, deep = min(layers for _, layers in runs), max(layers for _, layers in runs)
    slopes = {layers: (runs[many, layers] - runs[few, layers]) / (many - few) for layers in (shallow, deep)}
    starts = {layers: runs[few, layers] - slopes[layers] * few for layers in (shallow, deep)}
    span = max(1, deep - shallow)
    per_layer, per_token_layer = ((of[deep] - of[shallow]) / span for of in (starts, slopes))
    found = (starts[shallow] - per_layer * shallow, per_layer, slopes[shallow] - per_token_layer * shallow)
    return _guess(*found, per_token_layer)


def guess_from_profile(rows: Sequence[MeasuredCut], workers: int) -> Costs:
    """Costs from measured cuts of at least one depth; texts in a profile are taken for short sentences."""
    by_depth = {row.cut.layers: row.timing for row in rows}
    runs: dict[tuple[int, int], float] = {}
    shallow, deep = min(by_depth), max(by_depth)
    for layers in (shallow, deep):
        timing = by_depth[layers]
        one, many = _TYPICAL_TOKENS, 16 * _TYPICAL_TOKENS
        runs[one, layers] = timing.p50_ms / 1000
        runs[many, layers] = runs[one, layers] + (many - one) / one * workers / timing.texts_per_second
    if shallow == deep > 0:  # all its time is the layers'
        runs.update({(tokens, 0): 0.0 for tokens, _ in runs})
    return guess_from_runs(runs)


def _guess(fixed: float, per_layer: float, per_token: float, per_token_layer: float) -> Costs:
    found = (fixed, per_layer, per_token, per_token_layer)
    return Costs(tuple(max(value, least) for value, least in zip(found, _LEAST, strict=True)))
