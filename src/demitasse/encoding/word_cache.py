"""Tokenizers of the BERT family, with the words they have met remembered.

Such a tokenizer takes a text apart at spaces and punctuation before all else, so the tokens of a text are the tokens of
its words one after the other, and most words of a text have been met before. Here all words of many texts are looked up
at once, by a hash of their bytes, and their tokens strung together, without a Python object for any of them; only new
words go through the tokenizer.
"""

from __future__ import annotations

import copy
import json
import string
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from demitasse.encoding.packed_tokens import PackedTokens

REMEMBERED = 200_000  # words; beyond that it starts afresh
POOL = 4_000_000  # tokens of them, likewise
CHUNK = 1 << 18  # bytes of text looked up at a time: what is made of them stays in the cache
FEW = 24  # texts from which on all this is worth while
_SLOTS_BITS = 20
_BASE = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2^64
# What a byte is to a word: part of it, a gap between two (a space, the end of a text), or a word of its own.
_PART, _GAP, _MARK = 0, 1, 2
_KINDS = np.zeros(256, np.uint8)
_KINDS[[0, 32]] = _GAP
_KINDS_WITH_MARKS = _KINDS.copy()
_KINDS_WITH_MARKS[[ord(mark) for mark in string.punctuation]] = _MARK

_Int = npt.NDArray[np.int64]
_Hash = npt.NDArray[np.uint64]


class WordCache:
    """A `BatchTokenizer` that gives what its tokenizer gives, from the words it remembers."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int, first: list[int], last: list[int]) -> None:
        self._tokenizer = tokenizer
        # Such as [MASK]: sought in the text before it is taken apart, so no mark inside one may part it.
        self._added = [token.content.encode() for token in tokenizer.get_added_tokens_decoder().values()]
        self._max_tokens = max_tokens
        self._first, self._last = np.array(first, np.int32), np.array(last, np.int32)
        self._room = max(0, max_tokens - len(first) - len(last))
        self._lock = threading.Lock()
        self._memory = _Memory()
        # Powers of the base and of its inverse: the hash of a word must not depend on where it stands.
        self._powers = _powers(_BASE, CHUNK)
        self._inverses = _powers(pow(_BASE, -1, 1 << 64), CHUNK)

    def tokenize(self, texts: list[str]) -> PackedTokens:
        """The token ids of each text."""
        if len(texts) < FEW:
            return self._few(texts)
        if self._memory.full:
            self._memory = _Memory()  # another thread may go on with the old one
        memory = self._memory
        return PackedTokens.joined([self._chunk(memory, *chunk) for chunk in _chunks(texts)])

    def prompt_length(self, prompt: str) -> int:
        """How many leading tokens of a text the prompt takes."""
        return int(self.tokenize([prompt]).lengths[0]) - len(self._last)

    def written(self) -> dict[str, Any]:
        """What another process needs to make the same."""
        return {"tokenizer": self._tokenizer.to_str(), "max_tokens": self._max_tokens}

    def fresh(self) -> WordCache:
        """The same with no word remembered."""
        other = copy.copy(self)
        other._lock, other._memory = threading.Lock(), _Memory()
        return other

    def _few(self, texts: list[str]) -> PackedTokens:
        room, first, last = self._room, self._first.tolist(), self._last.tolist()
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return PackedTokens.of([[*first, *encoding.ids[:room], *last] for encoding in encodings])

    def _chunk(self, memory: _Memory, data: bytes, texts: list[str]) -> PackedTokens:
        """Texts that are joined by zero bytes in `data`."""
        raw = np.frombuffer(data + b"\0", np.uint8)
        if len(raw) > CHUNK or len(texts) != data.count(0) + 1:  # one text fills it all, or has zero bytes of its own
            return PackedTokens.joined([self._few([text]) for text in texts])
        kinds = _KINDS if any(token in data for token in self._added) else _KINDS_WITH_MARKS
        kind = kinds[raw]
        # A word begins after a space, the end of a text or a mark, and at a mark.
        begins = kind == _MARK
        begins[1:] |= kind[:-1] != _PART
        begins[0] = True
        starts = np.flatnonzero(begins)
        after = np.append(starts[1:], len(raw))
        last = raw[after - 1]
        words = self._find(memory, raw, starts, after - (kind[after - 1] == _GAP))
        closing = np.flatnonzero(last == 0)  # the last word of each text
        return self._strung(memory, words, np.append(0, closing[:-1] + 1))

    def _find(self, memory: _Memory, raw: npt.NDArray[np.uint8], starts: _Int, ends: _Int) -> _Int:
        """The number of each word of `raw`, new ones taken in."""
        sums = np.zeros(len(raw) + 1, np.uint64)
        np.cumsum(np.multiply(raw, self._powers[: len(raw)], dtype=np.uint64), out=sums[1:])
        hashes = (sums[ends] - sums[starts]) * self._inverses[starts] + (ends - starts).astype(np.uint64)
        numbers = memory.find(hashes)
        if (numbers < 0).any():
            with self._lock:
                numbers = memory.find(hashes)  # another thread may have been faster
                unseen = np.flatnonzero(numbers < 0)
                fresh = {int(hashes[place]): place for place in unseen}
                words = [raw[starts[p] : ends[p]].tobytes().decode() for p in fresh.values()]
                encodings = self._tokenizer.encode_batch_fast(words, add_special_tokens=False)
                memory.learn(np.array(list(fresh), np.uint64), [encoding.ids for encoding in encodings])
                numbers[unseen] = memory.find(hashes[unseen])
        return numbers

    def _strung(self, memory: _Memory, words: _Int, opening: _Int) -> PackedTokens:
        """The tokens of `words`, of which those at `opening` begin a text, with the special tokens around each text."""
        before, around = len(self._first), len(self._first) + len(self._last)
        counts = memory.counts[words]
        totals = np.add.reduceat(counts, opening)
        if totals.max() > self._room:  # leave out the words, or the tokens of one, that are past the limit
            earlier = np.cumsum(counts) - counts
            earlier -= np.repeat(earlier[opening], np.diff(opening, append=len(words)))
            counts = np.clip(self._room - earlier, 0, counts)
            totals = np.minimum(totals, self._room)
        ends = np.cumsum(counts)
        order = np.arange(ends[-1])
        lengths = totals + around
        starts = np.cumsum(lengths) - lengths
        ids = np.empty(lengths.sum(), np.int32)
        places = order + np.repeat(memory.starts[words] - (ends - counts), counts)
        ids[order + np.repeat(np.arange(len(opening)) * around + before, totals)] = memory.tokens[places]
        for place, token in enumerate(self._first):
            ids[starts + place] = token
        for place, token in enumerate(self._last):
            ids[starts + lengths - len(self._last) + place] = token
        return PackedTokens(ids, starts, lengths)


class _Memory:
    """Words met so far: an open-addressed table from a word's hash to its number, and its tokens by number."""

    def __init__(self) -> None:
        size = 1 << _SLOTS_BITS
        self._hashes = np.zeros(size, np.uint64)
        self._numbers = np.full(size, -1, np.int64)
        self.starts = np.zeros(0, np.int64)
        self.counts = np.zeros(0, np.int64)
        self.tokens = np.zeros(0, np.int32)

    @property
    def full(self) -> bool:
        return len(self.counts) > REMEMBERED or len(self.tokens) > POOL

    def find(self, hashes: _Hash) -> _Int:
        """The number of each word; -1 for a new one."""
        slots = _slots(hashes)
        numbers = self._numbers[slots]
        # A slot taken by another word: the one sought may be in a later one, up to the first empty slot.
        pending = np.flatnonzero((self._hashes[slots] != hashes) & (numbers >= 0))
        while len(pending):
            slots[pending] = (slots[pending] + 1) & (len(self._hashes) - 1)
            here = slots[pending]
            found = self._hashes[here] == hashes[pending]
            numbers[pending] = np.where(found, self._numbers[here], -1)
            pending = pending[~found & (self._numbers[here] >= 0)]
        return numbers

    def learn(self, hashes: _Hash, tokens: list[list[int]]) -> None:
        """Take in new words, each with its tokens.

        One thread at a time, but others may be looking words up: their tokens must be there before they can be found.
        """
        new, known = PackedTokens.of(tokens), len(self.counts)
        starts = len(self.tokens) + new.starts
        self.tokens = np.concatenate([self.tokens, new.ids])
        self.starts = np.concatenate([self.starts, starts])
        self.counts = np.concatenate([self.counts, new.lengths])
        for number, (slot, value) in enumerate(zip(_slots(hashes).tolist(), hashes, strict=True), known):
            while self._numbers[slot] >= 0:
                slot = (slot + 1) & (len(self._hashes) - 1)
            self._hashes[slot], self._numbers[slot] = value, number


def _slots(hashes: _Hash) -> _Int:
    return ((hashes * np.uint64(_BASE)) >> np.uint64(64 - _SLOTS_BITS)).astype(np.int64)


def _powers(base: int, count: int) -> _Hash:
    return np.cumprod(np.concatenate([np.ones(1, np.uint64), np.full(count - 1, base, np.uint64)]), dtype=np.uint64)


def _chunks(texts: list[str]) -> Iterator[tuple[bytes, list[str]]]:
    """Texts joined by zero bytes, as many at a time as fit a chunk."""
    begin = size = 0
    for place, text in enumerate(texts):
        # No character takes more than four bytes, and hardly any text needs more than one a character.
        needed = len(text) + 1 if text.isascii() else 4 * len(text) + 1
        if size + needed > CHUNK and place > begin:
            yield "\0".join(texts[begin:place]).encode(), texts[begin:place]
            begin, size = place, 0
        size += needed
    yield "\0".join(texts[begin:]).encode(), texts[begin:]


def word_cache_for(tokenizer: Tokenizer, max_tokens: int, direction: str = "right") -> WordCache | None:
    """`tokenizer` word by word, if its words are independent of one another; else `None`."""
    written: dict[str, Any] = json.loads(tokenizer.to_str())
    kinds = [(written[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer", "model")]
    if kinds != ["BertNormalizer", "BertPreTokenizer", "WordPiece"] or direction != "right":
        return None
    if any(" " in token["content"] for token in written["added_tokens"]):
        return None
    bare = Tokenizer.from_str(json.dumps({**written, "truncation": None, "padding": None}))
    # Where the special tokens stand shows on a text of one ordinary word.
    probe = bare.encode("a")
    inner = [place for place, special in enumerate(probe.special_tokens_mask) if not special]
    if not inner or probe.ids[inner[0] : inner[-1] + 1] != bare.encode("a", add_special_tokens=False).ids:
        return None
    return WordCache(bare, max_tokens, probe.ids[: inner[0]], probe.ids[inner[-1] + 1 :])
