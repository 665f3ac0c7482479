"""Depth by load: how many layers a query gets, so that it and those behind it are answered in time. Pure functions.

One number says how many layers the load allows: the level. It is the largest for which all that waits, in its order, is
answered within `USED` of the time it has left, where every query gets as many layers as the level says, though not
fewer than its floor. No request gets more layers than it asks for, and one that may not be shed gets all of them.

The level falls at once. It rises by one layer after each `HOLD` seconds in which even one layer more would have left
most of the time free (`USED_TO_RISE`): so it does not flap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from demitasse.serving.costs import Costs

USED = 0.6
USED_TO_RISE = 0.35
HOLD = 0.1  # seconds


@dataclass(frozen=True)
class Demand:
    """What a request asks of the scheduler."""

    layers: int
    floor: int  # as few layers as it may get; `layers` if it may not be shed
    wanted_by: float | None = None  # when it should be answered, which decides about its depth
    deadline: float | None = None  # after which an answer is of no use

    def layers_at(self, level: int) -> int:
        """How many layers it gets at a level.

        >>> [Demand(layers=4, floor=2).layers_at(level) for level in (1, 3, 6)]
        [2, 3, 4]
        """
        return min(self.layers, max(self.floor, level))


@dataclass(frozen=True)
class Level:
    """How many layers the load allows, and since when it would have allowed one more."""

    layers: int
    free_since: float | None = None


@dataclass(frozen=True)
class Queue:
    """What waits, in order, as pairs of demand and tokens, and how fast it is worked on."""

    waiting: Sequence[tuple[Demand, int]]
    rates: Sequence[float]  # seconds of a token at each depth
    workers: float  # or the share of them that this queue has
    batch_seconds: float = 0.0  # a text is answered when its batch is


def next_level(level: Level, most: int, queue: Queue, now: float) -> Level:
    """The level for the next batch; `most` is all the layers of the model."""
    if not in_time(queue, level.layers, now, USED):
        lower = range(level.layers - 1, 0, -1)
        return Level(next((layers for layers in lower if in_time(queue, layers, now, USED)), 0))
    since, layers = level.free_since, level.layers
    while layers < most and in_time(queue, layers + 1, now, USED_TO_RISE):
        if since is None:
            return Level(layers, now)
        if now - since < HOLD:
            return Level(layers, since)
        since, layers = since + HOLD, layers + 1
    return Level(layers)


def in_time(queue: Queue, level: int, now: float, used: float) -> bool:
    """Whether all that waits is answered within `used` of the time it has left, at a level.

    Those that are too late at any level do not count: shedding the others would not help them.
    """
    rates = queue.rates
    work = least_work = queue.batch_seconds * queue.workers
    for demand, tokens in queue.waiting:
        work += tokens * rates[demand.layers_at(level)]
        least_work += tokens * rates[demand.floor]
        if demand.wanted_by is not None and demand.floor < demand.layers:
            time_left = (demand.wanted_by - now) * queue.workers
            if least_work <= time_left and work > used * time_left:
                return False
    return True


def chosen_layers(demand: Demand, batch_tokens: int, level: int, costs: Costs, now: float) -> int:
    """How many layers a request gets that starts now: as the level says, or fewer if its own time is too short."""
    layers = demand.layers_at(level)
    if demand.wanted_by is not None:
        time_left = demand.wanted_by - now
        while layers > demand.floor and costs.per_batch(layers) + batch_tokens * costs.per_token(layers) > time_left:
            layers -= 1
    return layers
