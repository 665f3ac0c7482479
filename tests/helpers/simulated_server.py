"""A server without a clock and without a model: the real scheduler, driven by simulated arrivals and batches."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from demitasse.serving.costs import Costs, Work
from demitasse.serving.refusals import QueueFull
from demitasse.serving.scheduler import Batch, Scheduler, Ticket
from demitasse.serving.shedding import Demand

Truth = Callable[[Work, float], float]  # the seconds of a batch that starts at a time


@dataclass(eq=False)
class Arrival:
    """A request of a simulation, and what became of it."""

    at: float
    lengths: list[int]
    layers: int
    floor: int | None = None  # all its layers if left out
    timeout: float | None = None
    leaves_at: float | None = None  # its client goes away
    answered_at: float | None = None
    used_layers: int | None = None
    retry_after: float | None = None  # of a request that was refused
    missing: int = field(init=False)

    def __post_init__(self) -> None:
        self.missing = len(self.lengths)

    @property
    def took(self) -> float | None:
        """Seconds until it was answered."""
        return None if self.answered_at is None else self.answered_at - self.at

    @property
    def in_time(self) -> bool:
        """Whether it was answered, and before its timeout."""
        return self.took is not None and (self.timeout is None or self.took <= self.timeout)


def simulate(scheduler: Scheduler, truth: Truth, arrivals: Iterable[Arrival]) -> None:
    """Run until all is done."""
    simulation = _Simulation(scheduler, truth)
    for request in arrivals:
        simulation.later(request.at, partial(simulation.arrive, request))
    simulation.run()


class _Simulation:
    """What will happen, and when; whose place each ticket is."""

    def __init__(self, scheduler: Scheduler, truth: Truth) -> None:
        self._scheduler, self._truth = scheduler, truth
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._number = count()
        self._places: dict[Ticket, Arrival] = {}

    def later(self, at: float, action: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (at, next(self._number), action))

    def run(self) -> None:
        while self._events:
            now, _, action = heapq.heappop(self._events)
            action(now)

    def arrive(self, request: Arrival, now: float) -> None:
        deadline = None if request.timeout is None else now + request.timeout
        floor = request.layers if request.floor is None else request.floor
        demand = Demand(request.layers, floor, deadline, deadline)
        try:
            ticket = self._scheduler.admit(demand, sum(request.lengths), now)
        except QueueFull as problem:
            request.retry_after = problem.retry_after
            return
        self._places[ticket] = request
        self._scheduler.ready(ticket, request.lengths)
        ends = [at for at in (deadline, request.leaves_at) if at is not None]
        if ends:
            self.later(min(ends), lambda at: self._leave(ticket))
        self._start_batches(now)

    def _leave(self, ticket: Ticket) -> None:
        if self._places.pop(ticket, None) is not None:
            self._scheduler.leave(ticket)

    def _start_batches(self, now: float) -> None:
        while (batch := self._scheduler.next_batch(now)) is not None:
            self.later(now + self._truth(batch.work, now), partial(self._finish, batch))

    def _finish(self, batch: Batch, now: float) -> None:
        self._scheduler.finished(batch, now)
        for piece in batch.pieces:
            request = self._places.get(piece.key)
            if request is not None:
                request.missing -= piece.end - piece.begin
                if not request.missing:
                    request.answered_at, request.used_layers = now, piece.key.layers
                    del self._places[piece.key]
        self._start_batches(now)


def exactly(costs: Costs) -> Truth:
    """Batches that take what `costs` say."""
    return lambda work, now: costs.seconds(work)
