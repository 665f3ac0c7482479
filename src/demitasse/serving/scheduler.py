"""`Scheduler`: which requests are taken, who is next and at which depth. It is told the time, and starts no thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

from demitasse.serving.costs import BatchSize, Costs, Work, full_batch, learnt, rate
from demitasse.serving.lanes import REST_SHARE, Lanes, Piece
from demitasse.serving.refusals import QueueFull, TooManyTokens
from demitasse.serving.shedding import Demand, Level, Queue, chosen_layers, next_level

_SOONEST_RETRY = 0.1  # seconds
_MARGIN = 0.85  # of the time that a request has: what is expected to take longer is refused, since it may be late


@dataclass(frozen=True)
class Limits:
    """How much a scheduler takes, and runs at a time."""

    workers: int
    batch: BatchSize
    queue_tokens: int
    queue_seconds: float


@dataclass(eq=False)
class Ticket:
    """The place of a request in the scheduler."""

    demand: Demand
    first: int  # tokens that wait in its first piece: about, until they are counted
    rest: int = 0  # tokens that wait beyond that
    layers: int | None = None  # that it gets, once its first texts are in a batch

    @property
    def tokens(self) -> int:
        """All that wait."""
        return self.first + self.rest


@dataclass(eq=False)
class Batch:
    """Pieces that run together, each at the layers of its ticket."""

    pieces: list[Piece[Ticket]]
    work: Work
    started: float
    expected: float  # seconds


@dataclass(frozen=True)
class Load:
    """What a server is doing, and what it has done since it started."""

    queue_requests: int = 0
    queue_tokens: int = 0
    queue_seconds: float = 0.0  # until all that waits is done
    running: int = 0  # batches
    layers: int = 0  # that the load allows a query now, if it may be shed
    batches: int = 0
    batch_texts: int = 0
    batch_tokens: int = 0
    requests_shed: int = 0
    layers_shed: int = 0  # summed over those requests
    refused: int = 0  # because the queue was full


class Scheduler:
    """Requests wait here until `next_batch` hands them to a worker."""

    def __init__(self, limits: Limits, layers: int, costs: Costs) -> None:
        self._limits, self._most = limits, layers
        self._learn(costs)
        self._level = Level(layers)
        self._lanes: Lanes[Ticket] = Lanes()
        self._tickets: set[Ticket] = set()  # of which anything waits
        # Tokens that wait, by the most and fewest layers they may get: of first pieces, and of the rest.
        self._first: Counter[tuple[int, int]] = Counter()
        self._rest: Counter[tuple[int, int]] = Counter()
        self._running: set[Batch] = set()
        self._done = Load()

    def admit(self, demand: Demand, tokens: int, now: float) -> Ticket:
        """A place for a request of about `tokens`; `QueueFull` if even at its floor it would wait too long."""
        if tokens > self._limits.queue_tokens:
            raise TooManyTokens(tokens, self._limits.queue_tokens)
        ticket = self._ticket(demand, tokens)
        idle = not self._tickets and len(self._running) < self._limits.workers
        late = 0.0 if idle else self._too_late(ticket, now)  # on an idle machine it is tried, whatever is expected
        if late:
            self._done = replace(self._done, refused=self._done.refused + 1)
            raise QueueFull(f"{len(self._tickets)} requests are waiting", max(late, _SOONEST_RETRY))
        self._note(ticket)
        return ticket

    def ready(self, ticket: Ticket, lengths: Sequence[int]) -> None:
        """The tokens of each text of a request are known: have it wait for its turn.

        `QueueFull` if they are more than was thought, and too many.
        """
        self._unnote(ticket)
        counted = self._ticket(ticket.demand, sum(lengths))
        if counted.tokens > ticket.tokens and self._too_many(counted):
            self._done = replace(self._done, refused=self._done.refused + 1)
            raise QueueFull(f"{self._tokens} tokens are waiting", max(self._too_many(counted), _SOONEST_RETRY))
        ticket.first, ticket.rest = counted.first, counted.rest
        self._note(ticket)
        self._lanes.add(ticket, lengths)

    def leave(self, ticket: Ticket) -> None:
        """Drop what still waits of a request."""
        self._lanes.remove(ticket)
        self._unnote(ticket)

    def next_batch(self, now: float) -> Batch | None:
        """What an idle worker should run next, if there is one and anything waits."""
        idle = self._limits.workers - len(self._running)
        if not idle or not len(self._lanes):
            return None
        self._set_level(now)
        # A few texts are spread over all idle workers.
        pieces = self._lanes.take(min(self._full_batch(), ceil(self._lanes.tokens / idle)))
        tokens = sum(piece.tokens for piece in pieces)
        deepest = token_layers = 0
        for piece in pieces:
            layers = self._taken(piece, tokens, now)
            deepest, token_layers = max(deepest, layers), token_layers + layers * piece.tokens
        work = Work(deepest, tokens, token_layers)
        batch = Batch(pieces, work, now, self.costs.seconds(work))
        self._running.add(batch)
        return batch

    def finished(self, batch: Batch, now: float) -> None:
        """A batch is done: learn from how long it took."""
        self._running.discard(batch)
        self._learn(learnt(self.costs, batch.work, now - batch.started))
        self._set_level(now)
        done = self._done
        self._done = replace(
            done,
            batches=done.batches + 1,
            batch_texts=done.batch_texts + sum(piece.end - piece.begin for piece in batch.pieces),
            batch_tokens=done.batch_tokens + batch.work.tokens,
        )

    def load(self, now: float) -> Load:
        """What waits, what runs, and what was done."""
        layers = self._level_at(now).layers  # on an idle machine it has risen since the last batch
        return replace(
            self._done,
            queue_requests=len(self._tickets),
            queue_tokens=self._tokens,
            queue_seconds=self._running_seconds(now)
            + sum(self._seconds(part, layers) for part in (self._first, self._rest)) / self._limits.workers,
            running=len(self._running),
            layers=layers,
        )

    def _ticket(self, demand: Demand, tokens: int) -> Ticket:
        first = min(tokens, self._limits.batch.tokens)
        return Ticket(demand, first, tokens - first)

    def _too_late(self, ticket: Ticket, now: float) -> float:
        """By how many seconds a request would be late, or wait too long, even at its floor; 0 if it would not."""
        limits, demand = self._limits, ticket.demand
        first, rest = self._seconds(self._first), self._seconds(self._rest)
        own = ticket.tokens * self._rates[demand.floor]
        if ticket.rest:  # it takes turns with the other large ones, which have as much as it before it is done
            turns = sum(min(other.rest, ticket.rest) for other in self._tickets if other.rest)
            rest_ahead = rest * turns / (self._rest.total() or 1)
            waits, own = (first + rest_ahead) / limits.workers, own / limits.workers
        else:
            waits = first / self._workers_for_first
        waits += self._running_seconds(now)
        late = waits - limits.queue_seconds
        if demand.deadline is not None:
            batch = max(own, min(first + own, limits.batch.seconds))  # it is answered when all of its batch is
            late = max(late, waits + batch - _MARGIN * (demand.deadline - now))
        return max(0.0, late, self._too_many(ticket))

    @property
    def _tokens(self) -> int:
        """All that wait."""
        return self._first.total() + self._rest.total()

    def _too_many(self, ticket: Ticket) -> float:
        """Seconds until there is room for a request; 0 if there is."""
        over = self._tokens + ticket.tokens - self._limits.queue_tokens
        if over <= 0:
            return 0.0
        seconds = (self._seconds(self._first) + self._seconds(self._rest)) / self._limits.workers
        return max(over / max(1, self._tokens) * seconds, _SOONEST_RETRY)

    def _learn(self, costs: Costs) -> None:
        self.costs = costs
        self._rates = [rate(costs, self._limits.batch, layers) for layers in range(self._most + 1)]

    def _full_batch(self) -> int:
        """How many tokens of what waits a batch may have at the current level."""
        token_layers = sum(
            count * _layers_at(span, self._level.layers)
            for part in (self._first, self._rest)
            for span, count in part.items()
        )
        return full_batch(self.costs, self._limits.batch, round(token_layers / max(1, self._tokens)))

    @property
    def _workers_for_first(self) -> float:
        """How many workers there are for first pieces."""
        return self._limits.workers * (1 - REST_SHARE if self._rest.total() else 1)

    def _running_seconds(self, now: float) -> float:
        left = (max(0.0, batch.started + batch.expected - now) for batch in self._running)
        return sum(left) / self._limits.workers

    def _seconds(self, tokens: Mapping[tuple[int, int], int], level: int = 0) -> float:
        """How long one worker takes for tokens that wait, at a level."""
        return sum(count * self._rates[_layers_at(span, level)] for span, count in tokens.items() if count)

    def _set_level(self, now: float) -> None:
        self._level = self._level_at(now)

    def _level_at(self, now: float) -> Level:
        may_be_shed = any(count for (most, fewest), count in self._first.items() if fewest < most)
        waiting = [(ticket.demand, ticket.first) for ticket in self._lanes.new()] if may_be_shed else []
        queue = Queue(waiting, self._rates, self._workers_for_first, self._limits.batch.seconds)
        return next_level(self._level, self._most, queue, now)

    def _taken(self, piece: Piece[Ticket], batch_tokens: int, now: float) -> int:
        """Note that a piece no longer waits; returns its layers, which are chosen with the first of its request."""
        ticket = piece.key
        waiting = ticket.tokens - piece.tokens
        self._unnote(ticket)
        if ticket.layers is None:
            ticket.layers = chosen_layers(ticket.demand, batch_tokens, self._level.layers, self.costs, now)
            shed = ticket.demand.layers - ticket.layers
            if shed:
                done = self._done
                self._done = replace(done, requests_shed=done.requests_shed + 1, layers_shed=done.layers_shed + shed)
        ticket.first, ticket.rest = 0, waiting
        if waiting:
            self._note(ticket)
        return ticket.layers

    def _note(self, ticket: Ticket) -> None:
        self._tickets.add(ticket)
        self._first[_span(ticket)] += ticket.first
        self._rest[_span(ticket)] += ticket.rest

    def _unnote(self, ticket: Ticket) -> None:
        if ticket in self._tickets:
            self._tickets.discard(ticket)
            self._first[_span(ticket)] -= ticket.first
            self._rest[_span(ticket)] -= ticket.rest


def _layers_at(span: tuple[int, int], level: int) -> int:
    most, fewest = span
    return min(most, max(fewest, level))


def _span(ticket: Ticket) -> tuple[int, int]:
    """The most and the fewest layers that it may get."""
    if ticket.layers is not None:
        return ticket.layers, ticket.layers
    return ticket.demand.layers, ticket.demand.floor
