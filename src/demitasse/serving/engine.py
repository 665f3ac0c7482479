"""`Engine`: many requests at once, each at its own cut, answered in shared batches.

Its state belongs to the event loop. Threads only read texts and compute.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from demitasse.cut import Cut
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.encoding.vectors import Vectors
from demitasse.host.machine import cores
from demitasse.serving.batches import Embedded, Part, embed_parts
from demitasse.serving.costs import BatchSize, Costs, guess_from_profile, guess_from_runs
from demitasse.serving.messages import Answer, Asked, EngineOptions, Times, check_texts, estimated_tokens
from demitasse.serving.reading import Prompts, Unread, read
from demitasse.serving.refusals import DeadlineMissed, QueueFull, ShuttingDown, TextTooLong, TooManyTokens
from demitasse.serving.scheduler import Batch, Limits, Load, Scheduler, Ticket
from demitasse.serving.shedding import Demand

__all__ = [
    "Answer",
    "Asked",
    "DeadlineMissed",
    "Engine",
    "EngineOptions",
    "Load",
    "QueueFull",
    "ShuttingDown",
    "TextTooLong",
    "Times",
    "TooManyTokens",
]

# The most tokens in a batch, by what runs the model and the kind of device; `None` is any other kind. Fewer than
# `encode` takes: a batch that is done sooner answers sooner, and on a CPU more texts at a time are no faster.
_BATCH_TOKENS = {("torch", "cuda"): 65536, ("torch", None): 1024, ("blocks", "cpu"): 256, ("blocks", None): 16384}
_BATCH_SECONDS = 0.02
_READ_IN_BATCH = 128  # tokens of a request that are read by the worker which computes them, together with others'


@dataclass(eq=False)
class _Request:
    """A request on its way through the engine."""

    asked: Asked
    ticket: Ticket
    arrived: float
    answer: asyncio.Future[None]
    texts: PackedTokens | Unread  # once they are read, the longest come first
    vectors: Vectors
    missing: int  # texts without a vector
    order: npt.NDArray[np.int64] | None = None  # of sorted texts
    read_seconds: float = 0.0
    started: float = 0.0  # when its first texts were given to a worker
    tokens: int = 0
    truncated: int = 0

    def accept(self, begin: int, end: int, embedded: Embedded) -> None:
        """Take the vectors of some of its texts."""
        self.vectors[slice(begin, end) if self.order is None else self.order[begin:end]] = embedded.vectors
        self.missing -= end - begin
        self.tokens += embedded.tokens
        self.truncated += embedded.truncated
        if self.order is None:  # it was not read before
            self.read_seconds = max(self.read_seconds, embedded.read_seconds)

    def answered(self, now: float) -> Answer:
        """The answer, now that no vector is missing."""
        started = self.started or now
        total, read = now - self.arrived, self.read_seconds
        # Texts are read before they wait, or else by the worker.
        queue = started - self.arrived - (0.0 if self.order is None else read)
        compute = now - started - (read if self.order is None else 0.0)
        layers = self.asked.cut.layers if self.ticket.layers is None else self.ticket.layers
        times = Times(read, max(0.0, queue), max(0.0, compute), total)
        return Answer(self.vectors, Cut(layers, self.asked.cut.dims), self.tokens, self.truncated, times)


class Engine:
    """Answers requests with vectors of `encoder`, between `start` and `drain`.

    >>> import asyncio
    >>> async def answered():
    ...     engine = Engine(encoder)
    ...     await engine.start()
    ...     deep, shallow = await asyncio.gather(
    ...         engine.embed(Asked(["a ristretto", "a lungo"], Cut(3, 32))),
    ...         engine.embed(Asked(["a small cup"], Cut(1, 8), kind="query")),
    ...     )
    ...     await engine.drain(seconds=1)
    ...     return deep.vectors.shape, shallow.vectors.shape
    >>> asyncio.run(answered())
    ((2, 32), (1, 8))
    """

    def __init__(self, encoder: Encoder, options: EngineOptions | None = None) -> None:
        self._encoder, self._options = encoder, options or EngineOptions()
        kind = (encoder.runtime, encoder.device_kind)
        batch_tokens = self._options.max_batch_tokens or _BATCH_TOKENS.get(kind) or _BATCH_TOKENS[encoder.runtime, None]
        workers = self._options.threads or (cores() if kind == ("blocks", "cpu") else 1)
        size = BatchSize(batch_tokens, _BATCH_SECONDS)
        self._limits = Limits(workers, size, self._options.max_queue_tokens, self._options.max_queue_seconds)
        floor = self._options.floor
        self._floor = -(-encoder.full.layers // 3) if floor is None else floor
        self._prompts = Prompts(encoder)
        self._scheduler = Scheduler(self._limits, encoder.full.layers, Costs((1e-4,) * 4))
        self._requests: dict[Ticket, _Request] = {}
        self._readers = ThreadPoolExecutor(1, "demitasse-read")
        self._computers = ThreadPoolExecutor(workers, "demitasse-compute")
        self._accepts = False

    async def start(self) -> None:
        """Open every block and time a few batches: then the first request is as fast as the next."""
        self._loop = asyncio.get_running_loop()
        timed = await self._loop.run_in_executor(self._computers, self._timed)
        profile, encoder = self._options.profile, self._encoder
        rows = [] if profile is None else [row for row in profile.rows if row.precision == encoder.precision]
        costs = guess_from_profile(rows, self._limits.workers) if rows else guess_from_runs(timed)
        self._scheduler = Scheduler(self._limits, encoder.full.layers, costs)
        self._accepts = True

    async def drain(self, seconds: float) -> None:
        """Take no more requests, wait up to `seconds` for those that are here, refuse the rest, end the threads."""
        self._accepts = False
        if self._requests:
            await asyncio.wait([request.answer for request in self._requests.values()], timeout=seconds)
        for request in list(self._requests.values()):
            self._fail(request, ShuttingDown("the server is stopping; send the request to another, or again later"))
        for pool in (self._readers, self._computers):
            pool.shutdown(wait=False)

    def load(self) -> Load:
        """What waits and runs now, and what was done."""
        return self._scheduler.load(time.monotonic())

    async def embed(self, asked: Asked) -> Answer:
        """The vectors of a request. Where it ends early, cancelled or too late, its place is free at once."""
        request = self._admitted(asked)
        try:
            async with asyncio.timeout(asked.timeout):
                await self._line_up(request)
                self._start_batches()
                await request.answer
        except TimeoutError:
            raise DeadlineMissed(
                f"no answer within {asked.timeout:g} seconds; allow more time, ask for fewer layers or send fewer texts"
            ) from None
        finally:
            self._scheduler.leave(request.ticket)
            del self._requests[request.ticket]
            if request.answer.done() and not request.answer.cancelled():
                request.answer.exception()  # is known, also where nobody waits for it any more
        return request.answered(time.monotonic())

    def _admitted(self, asked: Asked) -> _Request:
        asked.cut.within(self._encoder.full)
        if not self._accepts:
            raise ShuttingDown("the server is starting or stopping; send the request again later")
        check_texts(asked.texts)
        tokens = sum(self._estimates(asked))
        now = time.monotonic()
        ticket = self._scheduler.admit(self._demand(asked, now), tokens, now)
        count = len(asked.texts)
        texts, vectors = Unread(asked.texts, asked.kind), np.empty((count, asked.cut.dims), np.float32)  # type: ignore[arg-type]
        request = _Request(asked, ticket, now, self._loop.create_future(), texts, vectors, count)
        self._requests[ticket] = request
        return request

    def _estimates(self, asked: Asked) -> list[int]:
        longest = self._encoder.max_seq_length
        return [min(estimated_tokens(text), longest) for text in asked.texts]

    def _demand(self, asked: Asked, now: float) -> Demand:
        layers = asked.cut.layers
        floor = layers
        if asked.kind != "document":  # a document's vector is kept, and stays as good as it was made
            if asked.min_layers is not None:
                floor = min(layers, max(0, asked.min_layers))
            elif self._options.shed and asked.kind == "query":
                floor = min(layers, self._floor)
        deadline = None if asked.timeout is None else now + asked.timeout
        wanted_by = now + self._options.shed_seconds if deadline is None and floor < layers else deadline
        return Demand(layers, floor, wanted_by, deadline)

    async def _line_up(self, request: _Request) -> None:
        """Have a request wait for its turn; what cannot be read piece by piece is read first."""
        asked = request.asked
        if not request.missing:
            request.answer.set_result(None)
        elif request.ticket.tokens <= _READ_IN_BATCH and asked.truncate and isinstance(asked.texts[0], str):
            self._scheduler.ready(request.ticket, self._estimates(asked))
        else:
            begun = time.monotonic()
            packed, order = await self._loop.run_in_executor(self._readers, self._read, asked)
            if request.answer.done():  # the engine has stopped meanwhile
                return
            request.texts, request.order, request.read_seconds = packed, order, time.monotonic() - begun
            self._scheduler.ready(request.ticket, packed.lengths.tolist())

    def _read(self, asked: Asked) -> tuple[PackedTokens, npt.NDArray[np.int64]]:
        """The texts of a request as tokens, longest first, and their order: texts of similar length share a batch."""
        packed = read(self._encoder, self._prompts, asked)
        order = np.argsort(-packed.lengths, kind="stable")
        return packed.ordered(order), order

    def _start_batches(self) -> None:
        """Give every idle worker a batch, while anything waits."""
        while (batch := self._scheduler.next_batch(time.monotonic())) is not None:
            parts = []
            for piece in batch.pieces:
                request = self._requests[piece.key]
                request.started = request.started or batch.started
                cut = Cut(piece.key.layers or 0, request.asked.cut.dims)
                parts.append(Part(request.texts.part(piece.begin, piece.end), cut, request.asked.kind))
            work = self._loop.run_in_executor(self._computers, embed_parts, self._encoder, self._prompts, parts)
            work.add_done_callback(lambda done, batch=batch: self._finished(batch, done))  # type: ignore[misc]

    def _finished(self, batch: Batch, done: asyncio.Future[list[Embedded | Exception]]) -> None:
        self._scheduler.finished(batch, time.monotonic())
        problem = done.exception()
        results = [problem] * len(batch.pieces) if problem is not None else done.result()
        for piece, result in zip(batch.pieces, results, strict=True):
            request = self._requests.get(piece.key)
            if request is None or request.answer.done():  # it has left
                continue
            if isinstance(result, Embedded):
                request.accept(piece.begin, piece.end, result)
                if not request.missing:
                    request.answer.set_result(None)
            else:
                self._fail(request, result)
        self._start_batches()

    def _fail(self, request: _Request, why: BaseException) -> None:
        self._scheduler.leave(request.ticket)
        if not request.answer.done():
            request.answer.set_exception(why)

    def _timed(self) -> dict[tuple[int, int], float]:
        """The seconds of batches of few and many tokens at no layers and at all of them, by (tokens, layers)."""
        full = self._encoder.full
        few = self._encoder.reader.read(["a text"])
        many = PackedTokens.joined([few] * max(2, self._limits.batch.tokens // int(few.lengths.sum())))
        self._seconds([Part(few, Cut(depth, full.dims), None) for depth in range(full.layers + 1)])  # opens the blocks
        return {
            (int(packed.lengths.sum()), layers): min(
                self._seconds([Part(packed, Cut(layers, full.dims), None)]) for _ in range(3)
            )
            for packed in (few, many)
            for layers in (0, full.layers)
        }

    def _seconds(self, parts: Sequence[Part]) -> float:
        begun = time.perf_counter()
        for result in embed_parts(self._encoder, self._prompts, parts):
            if isinstance(result, Exception):  # a model that is broken is found before the first request comes
                raise result
        return time.perf_counter() - begun
