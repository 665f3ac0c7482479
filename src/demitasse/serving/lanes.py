"""Who is next: requests wait in two lanes, and a batch is filled from both. No clock, no threads.

The first piece of every request waits in the lane of new ones, first come, first served. What a piece cannot hold of a
large request waits in the lane of rests, whose requests take turns. While both lanes have work, rests get `REST_SHARE`
of the tokens: a stream of small requests cannot starve a large one, and no number of large ones can make a small one
wait for them. Where one lane is empty, the other has everything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil
from typing import Generic, TypeVar

REST_SHARE = 0.25
_PLACES = 64  # that may be of requests that have left

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Piece(Generic[Key]):
    """Texts `begin` to `end` of a request."""

    key: Key
    begin: int
    end: int
    tokens: int


@dataclass
class _Waiting(Generic[Key]):
    """A request of which texts from `taken` on are waiting."""

    key: Key
    ends: list[int]  # tokens of the texts up to each, itself included
    taken: int = 0

    @property
    def before(self) -> int:
        return self.ends[self.taken - 1] if self.taken else 0

    @property
    def tokens(self) -> int:
        return self.ends[-1] - self.before

    @property
    def next_tokens(self) -> int:
        return self.ends[self.taken] - self.before

    def take(self, room: int) -> Piece[Key]:
        """The texts that fit, at least one."""
        before, begin = self.before, self.taken
        end = self.taken = max(begin + 1, bisect_right(self.ends, before + room))
        return Piece(self.key, begin, end, self.ends[end - 1] - before)


@dataclass
class Lanes(Generic[Key]):
    """Requests that wait, each with the tokens of its texts."""

    _new: deque[_Waiting[Key]] = field(default_factory=deque)
    _rests: deque[_Waiting[Key]] = field(default_factory=deque)
    _waiting: dict[Key, _Waiting[Key]] = field(default_factory=dict)
    _owed: float = 0  # tokens that rests may have before new requests get more
    tokens: int = 0  # waiting in both lanes

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: Key, lengths: Sequence[int]) -> None:
        """Have a request wait, given the tokens of each of its texts, at least one."""
        waiting = self._waiting[key] = _Waiting(key, list(accumulate(lengths)))
        self._new.append(waiting)
        self.tokens += waiting.tokens

    def remove(self, key: Key) -> None:
        """Forget a request, if it is still waiting."""
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            self.tokens -= waiting.tokens
            # Its place in a lane goes when its turn comes, or when most places are of those that have left.
            if len(self._new) + len(self._rests) > 2 * len(self._waiting) + _PLACES:
                for lane in (self._new, self._rests):
                    staying = [other for other in lane if self._waiting.get(other.key) is other]
                    lane.clear()
                    lane.extend(staying)

    def new(self) -> Iterator[Key]:
        """The requests whose first piece waits, in their order."""
        return (waiting.key for waiting in self._new if self._waiting.get(waiting.key) is waiting)

    def take(self, budget: int) -> list[Piece[Key]]:
        """The pieces of the next batch: up to `budget` tokens, but at least one text if any waits."""
        pieces: list[Piece[Key]] = []
        left = budget
        while True:
            new, rest = self._head(self._new), self._head(self._rests)
            contested = new is not None and rest is not None
            if not contested:
                self._owed = 0
            of_rests = rest is not None and (new is None or self._owed > 0)
            waiting = rest if of_rests else new
            if waiting is None or (pieces and waiting.next_tokens > left):
                return pieces
            room = min(left, ceil(self._owed)) if contested and of_rests else left
            pieces.append(self._taken(waiting, self._rests if of_rests else self._new, room))
            left -= pieces[-1].tokens
            if contested:
                self._owed += (REST_SHARE - of_rests) * pieces[-1].tokens

    def _head(self, lane: deque[_Waiting[Key]]) -> _Waiting[Key] | None:
        while lane and self._waiting.get(lane[0].key) is not lane[0]:
            lane.popleft()
        return lane[0] if lane else None

    def _taken(self, waiting: _Waiting[Key], lane: deque[_Waiting[Key]], room: int) -> Piece[Key]:
        lane.popleft()
        piece = waiting.take(room)
        self.tokens -= piece.tokens
        if waiting.taken < len(waiting.ends):
            self._rests.append(waiting)
        else:
            del self._waiting[waiting.key]
        return piece
