"""How long encoders take, timed in turns: what slows the machine for a while slows all of them. No torch.

A round visits every encoder once: each encodes the same single texts, one call each, and then the same batches. The
order turns from round to round. A percentile is taken within each round, and the median of the rounds is what counts:
a round that something else disturbed does not move it. How far the rounds differ is the noise.
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

from demitasse.planning.profile import Timing

# Many short rounds rather than a few long ones: work that disturbs some of them leaves the median as it is.
SINGLES = 40  # texts that are timed one by one, in each round
BATCHES = 4  # batches of a round, at most
LEAST_ROUNDS = 5  # even where they take longer than they should: 200 single texts
_TRIED = 8  # single texts that tell what one takes
_UNTIMED = 3  # single texts before each turn: the last encoder has filled the processor's caches

Text = tuple[str, str | None]  # and the name of its prompt
Call = tuple[tuple[str, ...], str | None]  # texts that are encoded in one call
Encode = Callable[[Sequence[str], str | None], object]
Key = TypeVar("Key")


@dataclass(frozen=True)
class Work:
    """What every encoder encodes in each round."""

    singles: tuple[Call, ...]
    batches: tuple[Call, ...]


@dataclass(frozen=True)
class _Turn:
    """What one encoder took in one round, in seconds."""

    singles: tuple[float, ...]
    batches: float


def plan_work(singles: Sequence[Text], batched: Sequence[Text], batch: int) -> Work:
    """Single texts of as many lengths as there are in `singles`, and batches that each have those of `batched`.

    A few batches taken as they stand, or drawn, would be longer or shorter than most. Where there are fewer texts than
    a batch has, they come again.

    >>> texts = [("a", None), ("a lungo", None), ("a small cup", None)]
    >>> work = plan_work(texts, texts, batch=2)
    >>> len(work.singles), [len(texts) for texts, prompt in work.batches]
    (40, [2])
    """
    by_length = sorted(singles, key=lambda text: len(text[0]))
    places = _spread(SINGLES, len(by_length))
    random.Random(0).shuffle(places)  # noqa: S311 - an order in which long ones are not last
    by_prompt: dict[str | None, list[str]] = {}
    for text, prompt in batched:
        by_prompt.setdefault(prompt, []).append(text)
    whole = [call for prompt, texts in by_prompt.items() for call in _whole_batches(texts, prompt, batch)]
    if not whole:
        prompt, texts = max(by_prompt.items(), key=lambda item: len(item[1]))
        whole = [((*(texts * -(-batch // len(texts)))[:batch],), prompt)]
    return Work(
        tuple(((text,), prompt) for text, prompt in (by_length[place] for place in places)),
        tuple(whole[place] for place in _spread(min(BATCHES, len(whole)), len(whole))),
    )


def time_in_turns(
    encoders: Mapping[Key, Callable[[], Encode]],
    work: Work,
    *,
    rounds: int,
    seconds: float,
    clock: Callable[[], float],
    advance: Callable[[int], None] = lambda steps: None,
) -> tuple[dict[Key, Timing], int]:
    """How long each of `encoders` takes, and how many rounds that was measured in.

    Each is made anew for each turn, so that it remembers no text. Within `seconds`, as far as possible: then there are
    fewer batches in a round, at last one, and fewer rounds, at last `LEAST_ROUNDS`.
    """
    keys = list(encoders)
    turns: dict[Key, list[_Turn]] = {key: [] for key in keys}
    with _no_garbage_collection():
        begun = clock()
        work = _affordable(work, [_warmed_up(encoders[key](), work, clock) for key in keys], seconds / rounds)
        for number in range(rounds):
            started = clock()
            for key in _turned(keys, number):
                turns[key].append(_turn(encoders[key](), work, clock))
                advance(1)
            now = clock()
            if number + 1 >= LEAST_ROUNDS and now - begun + (now - started) > seconds:
                break
    texts = sum(len(texts) for texts, _ in work.batches)
    return {key: summary(taken, texts) for key, taken in turns.items()}, len(turns[keys[0]])


def summary(turns: Sequence[_Turn], texts: int) -> Timing:
    """The median of the rounds; and as noise, half of the spread of their middle half, of p95 or of the speed.

    >>> turns = [_Turn((0.002, 0.004), 0.1), _Turn((0.002, 0.004), 0.1), _Turn((0.5, 0.5), 9.0)]
    >>> summary(turns, texts=64).texts_per_second
    640.0
    """
    half, most = ([1000 * float(np.percentile(turn.singles, level)) for turn in turns] for level in (50, 95))
    speeds = [texts / turn.batches for turn in turns]
    return Timing(
        p50_ms=float(np.median(half)),
        p95_ms=float(np.median(most)),
        texts_per_second=float(np.median(speeds)),
        noise=max(_noise(most), _noise(speeds)),
    )


def _noise(values: Sequence[float]) -> float:
    low, middle, high = np.percentile(values, [25, 50, 75])
    return float((high - low) / 2 / middle)


def _whole_batches(texts: Sequence[str], prompt: str | None, batch: int) -> list[Call]:
    """As many as there are texts for, dealt out by length, so that each has short and long ones."""
    count = len(texts) // batch
    by_length = sorted(texts, key=len)
    dealt = [by_length[place] for place in _spread(count * batch, len(texts))]
    return [((*dealt[number::count],), prompt) for number in range(count)]


def _spread(count: int, among: int) -> list[int]:
    """The middle of each of `count` equal parts: short and long ones as often as they are there."""
    return [(2 * number + 1) * among // (2 * count) for number in range(count)]


def _warmed_up(encode: Encode, work: Work, clock: Callable[[], float]) -> tuple[float, float]:
    """What one batch and one single text take once everything that is opened late has been opened."""
    few = work.singles[:_TRIED]
    for call in (work.batches[0], *few):
        encode(*call)
    return _seconds(encode, work.batches[0], clock), fmean(_seconds(encode, call, clock) for call in few)


def _affordable(work: Work, costs: Sequence[tuple[float, float]], seconds: float) -> Work:
    """The work of a round with as many batches as all encoders get done in `seconds`, at least one."""
    batch, single = (sum(cost) for cost in zip(*costs, strict=True))
    room = (seconds - single * len(work.singles)) / max(batch, 1e-9)
    return replace(work, batches=work.batches[: max(1, int(min(room, len(work.batches))))])


def _turned(keys: Sequence[Key], number: int) -> list[Key]:
    """Another one first in each round, and every other round backwards: nobody always runs after the same one."""
    start = number * max(1, len(keys) // 3) % len(keys)
    turned = [*keys[start:], *keys[:start]]
    return turned[::-1] if number % 2 else turned


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
    """Python's own cleaning, which would fall on whoever happens to run, done before and put off."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
