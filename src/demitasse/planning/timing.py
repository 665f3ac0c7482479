"""How long encoders take, timed in turns, so that what slows the machine for a while slows all of them. No torch.

A round visits every encoder once: each encodes the same single texts, one call each, and then the same batches. The
order rotates from round to round. Percentiles are taken within each round, and the result is their median over the
rounds, which a disturbed round does not move. How much the rounds differ is the noise.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeVar

import numpy as np

from demitasse.host.progress import Advance
from demitasse.planning.profile import Timing

# Many short rounds rather than a few long ones: if other work disturbs some of them, the median stays the same.
SINGLES = 40  # texts timed one by one in each round
BATCHES = 4  # maximum number of batches in a round
LEAST_ROUNDS = 5  # even if they take longer than allowed: 200 single texts
_TRIED = 8  # single texts used to estimate the time of one
_UNTIMED = 3  # single texts before each turn, since the last encoder has filled the processor's caches

Text = tuple[str, str | None]  # a text and the name of its prompt
Call = tuple[tuple[str, ...], str | None]  # texts encoded in one call, and the name of their prompt
Encode = Callable[[Sequence[str], str | None], object]
Key = TypeVar("Key")


@dataclass(frozen=True)
class Work:
    """What every encoder encodes in each round."""

    singles: tuple[Call, ...]
    batches: tuple[Call, ...]


@dataclass(frozen=True)
class _Turn:
    """The times of one encoder in one round, in seconds."""

    singles: tuple[float, ...]
    batches: float


def plan_work(singles: Sequence[Text], batched: Sequence[Text], batch: int) -> Work:
    """Single texts that cover the lengths of `singles`, and batches that each cover the lengths of `batched`.

    A few consecutive or random batches would be longer or shorter than most. Texts are repeated if there are fewer than
    a batch needs.

    >>> texts = [("a", None), ("a lungo", None), ("a small cup", None)]
    >>> work = plan_work(texts, texts, batch=2)
    >>> len(work.singles), [len(texts) for texts, prompt in work.batches]
    (40, [2])
    """
    by_length = sorted(singles, key=lambda text: len(text[0]))
    chosen = _spread(SINGLES, len(by_length))
    random.Random(0).shuffle(chosen)  # noqa: S311 - so that long texts are not last
    by_prompt: dict[str | None, list[str]] = {}
    for text, prompt in batched:
        by_prompt.setdefault(prompt, []).append(text)
    batches = [call for prompt, texts in by_prompt.items() for call in _full_batches(texts, prompt, batch)]
    if not batches:
        prompt, texts = max(by_prompt.items(), key=lambda item: len(item[1]))
        batches = [((*(texts * -(-batch // len(texts)))[:batch],), prompt)]
    return Work(
        tuple(((text,), prompt) for text, prompt in (by_length[index] for index in chosen)),
        tuple(batches[index] for index in _spread(min(BATCHES, len(batches)), len(batches))),
    )


def time_in_turns(
    encoders: Mapping[Key, Callable[[], Encode]],
    work: Work,
    *,
    rounds: int,
    seconds: float,
    clock: Callable[[], float],
    advance: Advance = lambda steps: None,
) -> tuple[dict[Key, Timing], int]:
    """How long each of `encoders` takes, and the number of rounds that were timed.

    Each turn makes a new encoder, which has not seen any text. To stay within `seconds`, there are fewer batches in a
    round (at least one), then fewer rounds (at least `LEAST_ROUNDS`).
    """
    keys = list(encoders)
    turns: dict[Key, list[_Turn]] = {key: [] for key in keys}
    with _no_garbage_collection():
        begun = clock()
        work = _affordable(work, [_warm_up(encoders[key](), work, clock) for key in keys], seconds / rounds)
        for number in range(rounds):
            started = clock()
            for key in _rotated(keys, number):
                turns[key].append(_turn(encoders[key](), work, clock))
                advance(1)
            now = clock()
            if number + 1 >= LEAST_ROUNDS and now - begun + (now - started) > seconds:
                break
    texts = sum(len(texts) for texts, _ in work.batches)
    return {key: summary(taken, texts) for key, taken in turns.items()}, len(turns[keys[0]])


def summary(turns: Sequence[_Turn], texts: int) -> Timing:
    """The median of the rounds; the noise is half of their interquartile range, of p95 or of speed if that is larger.

    >>> turns = [_Turn((0.002, 0.004), 0.1), _Turn((0.002, 0.004), 0.1), _Turn((0.5, 0.5), 9.0)]
    >>> summary(turns, texts=64).texts_per_second
    640.0
    """
    p50, p95 = ([1000 * float(np.percentile(turn.singles, level)) for turn in turns] for level in (50, 95))
    speeds = [texts / turn.batches for turn in turns]
    return Timing(
        p50_ms=float(np.median(p50)),
        p95_ms=float(np.median(p95)),
        texts_per_second=float(np.median(speeds)),
        noise=max(_noise(p95), _noise(speeds)),
    )


def _noise(values: Sequence[float]) -> float:
    low, middle, high = np.percentile(values, [25, 50, 75])
    return float((high - low) / 2 / middle)


def _full_batches(texts: Sequence[str], prompt: str | None, batch: int) -> list[Call]:
    """As many as there are texts for, dealt out by length so that each has short and long ones."""
    count = len(texts) // batch
    by_length = sorted(texts, key=len)
    dealt = [by_length[index] for index in _spread(count * batch, len(texts))]
    return [((*dealt[number::count],), prompt) for number in range(count)]


def _spread(count: int, among: int) -> list[int]:
    """The indices in the middle of `count` equal parts: an even sample, with as many short and long texts as before."""
    return [(2 * number + 1) * among // (2 * count) for number in range(count)]


def _warm_up(encode: Encode, work: Work, clock: Callable[[], float]) -> tuple[float, float]:
    """The time of one batch and of one single text, after a first call that loads what is loaded lazily."""
    few = work.singles[:_TRIED]
    for call in (work.batches[0], *few):
        encode(*call)
    return _seconds(encode, work.batches[0], clock), fmean(_seconds(encode, call, clock) for call in few)


def _affordable(work: Work, costs: Sequence[tuple[float, float]], seconds: float) -> Work:
    """The work of a round with as many batches as all encoders finish in `seconds`, at least one."""
    batch, single = (sum(cost) for cost in zip(*costs, strict=True))
    room = (seconds - single * len(work.singles)) / max(batch, 1e-9)
    return replace(work, batches=work.batches[: max(1, int(min(room, len(work.batches))))])


def _rotated(keys: Sequence[Key], number: int) -> list[Key]:
    """A different one first in each round, every other round reversed: none always runs after the same one."""
    start = number * max(1, len(keys) // 3) % len(keys)
    rotated = [*keys[start:], *keys[:start]]
    return rotated[::-1] if number % 2 else rotated


def _turn(encode: Encode, work: Work, clock: Callable[[], float]) -> _Turn:
    for texts, prompt in work.singles[:_UNTIMED]:
        encode(texts, prompt)
    singles = tuple(_seconds(encode, call, clock) for call in work.singles)
    return _Turn(singles, sum(_seconds(encode, call, clock) for call in work.batches))


def _seconds(encode: Encode, call: Call, clock: Callable[[], float]) -> float:
    begun = clock()
    encode(*call)
    return clock() - begun


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collects garbage first and then not until the end, since it would slow whichever encoder happens to run."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
