"""Tokenizers of the BERT family, with a cache of the words they have seen.

Such a tokenizer first splits a text at spaces and punctuation, so the tokens of a text are the tokens of its words in
order, and most words of a text have been seen before. Here all words of many texts are looked up at once, by a hash of
their bytes, and their tokens joined, without a Python object for any of them; only new words go through the tokenizer.

No text can change the tokens of another. A word that was found by its hash is compared with the word that was stored,
byte by byte; where two differ, the second goes through the tokenizer every time. The base of the hash is random and
secret, so that nobody can make such words on purpose to slow others down.
"""

from __future__ import annotations

import os
import secrets
import string
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from demitasse.encoding.packed_tokens import PackedTokens, ranges
from demitasse.encoding.word_tokens import WordTokenizer

REMEMBERED = 200_000  # words; with more, the cache starts empty again
POOL = 4_000_000  # tokens of those words, likewise
LETTERS = 16_000_000  # bytes of those words, likewise
CHUNK = 1 << 18  # bytes of text looked up at a time: the arrays made from them fit the processor's cache
FEW = 24  # with fewer texts, the tokenizer itself is faster
_SLOTS_BITS = 20
_WORD_BY_WORD = (BertNormalizer, BertPreTokenizer, WordPiece)
_SPREAD = 0x9E3779B97F4A7C15  # multiplies a hash to choose its slot
# What a byte is to a word: part of one, a gap between two (a space, the end of a text), or a word by itself.
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
        self._tokenizer, self._words = tokenizer, WordTokenizer(tokenizer)
        # Such as [MASK]: matched before the text is split, so punctuation inside one must not split it.
        self._added = [token.content.encode() for token in tokenizer.get_added_tokens_decoder().values()]
        self._max_tokens = max_tokens
        self._first, self._last = np.array(first, np.int32), np.array(last, np.int32)
        self._room = max(0, max_tokens - len(first) - len(last))
        self._memory = _Memory()
        # Powers of the base and of its inverse: the hash of a word must not depend on its position.
        base = secrets.randbits(64) | 1  # odd, so that it has an inverse modulo 2^64
        self._powers = _powers(base, CHUNK)
        self._inverses = _powers(pow(base, -1, 1 << 64), CHUNK)

    def tokenize(self, texts: list[str]) -> PackedTokens:
        """The token ids of each text."""
        if len(texts) < FEW:
            return self._few(texts)
        return PackedTokens.joined([self._chunk(self._with_room(), *chunk) for chunk in _chunks(texts)])

    def prompt_length(self, prompt: str) -> int:
        """How many leading tokens of a text the prompt takes."""
        return int(self.tokenize([prompt]).lengths[0]) - len(self._last)

    @property
    def vocabulary_size(self) -> int:
        """How many token ids there are."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def vocabulary(self) -> dict[str, int]:
        """Every token with its id."""
        return dict(self._tokenizer.get_vocab(with_added_tokens=True))

    def settings(self) -> dict[str, Any]:
        """What another process needs to make the same cache."""
        return {"tokenizer": self._tokenizer.to_str(), "max_tokens": self._max_tokens}

    def limited(self, max_tokens: int) -> WordCache:
        """The same tokenizer, truncating at `max_tokens`; it remembers the same words."""
        other = self._copy()
        other._max_tokens = max_tokens
        other._room = max(0, max_tokens - len(self._first) - len(self._last))
        return other

    def fresh(self) -> WordCache:
        """The same tokenizer with an empty cache."""
        other = self._copy()
        other._memory = _Memory()
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process has its own memory, and its own secret base."""
        return WordCache, (self._tokenizer, self._max_tokens, self._first.tolist(), self._last.tolist())

    def _copy(self) -> WordCache:
        other = WordCache.__new__(WordCache)
        vars(other).update(vars(self))
        return other

    def _with_room(self) -> _Memory:
        """The memory, empty again if it is full (asked for each chunk, so that no texts outgrow it) or after a fork."""
        memory = self._memory
        if memory.full or memory.process != os.getpid():
            memory = self._memory = _Memory()  # another thread may still be using the old one
        return memory

    def _few(self, texts: list[str]) -> PackedTokens:
        room, first, last = self._room, self._first.tolist(), self._last.tolist()
        ids = self._words.ids(texts)
        around = len(first) + len(last)
        return PackedTokens.of([[*first, *own[:room], *last] for own in ids], [len(own) + around for own in ids])

    def _chunk(self, memory: _Memory, data: bytes, texts: list[str]) -> PackedTokens:
        """The tokens of `texts`, which `data` holds joined by zero bytes."""
        raw = np.frombuffer(data + b"\0", np.uint8)
        if len(raw) > CHUNK or len(texts) != data.count(0) + 1:  # one text is more than a chunk, or has zero bytes
            return PackedTokens.joined([self._few([text]) for text in texts])
        kinds = _KINDS if any(token in data for token in self._added) else _KINDS_WITH_MARKS
        kind = kinds[raw]
        # A word starts after a space, the end of a text or punctuation, and at punctuation.
        begins = kind == _MARK
        begins[1:] |= kind[:-1] != _PART
        begins[0] = True
        starts = np.flatnonzero(begins)
        after = np.append(starts[1:], len(raw))
        last = raw[after - 1]
        ends = after - (kind[after - 1] == _GAP)
        words = self._find(memory, raw, starts, ends)
        self._correct(memory, words, raw[kind != _GAP], ends - starts)
        closing = np.flatnonzero(last == 0)  # the last word of each text
        return self._joined(memory, words, np.append(0, closing[:-1] + 1))

    def _find(self, memory: _Memory, raw: npt.NDArray[np.uint8], starts: _Int, ends: _Int) -> _Int:
        """The number of each word of `raw`; new words are added first."""
        sums = np.zeros(len(raw) + 1, np.uint64)
        np.cumsum(np.multiply(raw, self._powers[: len(raw)], dtype=np.uint64), out=sums[1:])
        hashes = (sums[ends] - sums[starts]) * self._inverses[starts] + (ends - starts).astype(np.uint64)
        numbers = memory.find(hashes)
        if (numbers < 0).any():
            with memory.lock:
                numbers = memory.find(hashes)  # another thread may have added them meanwhile
                unseen = np.flatnonzero(numbers < 0)
                if len(unseen):
                    new, first = np.unique(hashes[unseen], return_index=True)
                    begins, lengths = starts[unseen[first]], (ends - starts)[unseen[first]]
                    letters = raw[ranges(begins, lengths)]
                    memory.learn(new, letters, lengths, self._words.tokens(letters, lengths))
                    numbers[unseen] = memory.find(hashes[unseen])
        return numbers

    def _correct(self, memory: _Memory, numbers: _Int, letters: npt.NDArray[np.uint8], lengths: _Int) -> None:
        """Give words that only share the hash of the one they were found as a number of their own.

        `letters` are the bytes of all words, one word after the other.
        """
        different = memory.different(numbers, letters, lengths)
        if len(different):
            own = lengths[different]
            of_words = letters[ranges((np.cumsum(lengths) - lengths)[different], own)]
            with memory.lock:
                numbers[different] = memory.append(of_words, own, self._words.tokens(of_words, own))

    def _joined(self, memory: _Memory, words: _Int, opening: _Int) -> PackedTokens:
        """The tokens of `words`, where those at `opening` start a text, with the special tokens around each text."""
        before, around = len(self._first), len(self._first) + len(self._last)
        counts = memory.counts[words]
        totals = np.add.reduceat(counts, opening)
        lengths = whole_lengths = totals + around
        if totals.max() > self._room:  # leave out words, or tokens of a word, past the limit
            earlier = np.cumsum(counts) - counts
            earlier -= np.repeat(earlier[opening], np.diff(opening, append=len(words)))
            counts = np.clip(self._room - earlier, 0, counts)
            totals = np.minimum(totals, self._room)
            lengths = totals + around
        ends = np.cumsum(counts)
        order = np.arange(ends[-1])
        starts = np.cumsum(lengths) - lengths
        ids = np.empty(lengths.sum(), np.int32)
        sources = order + np.repeat(memory.starts[words] - (ends - counts), counts)
        ids[order + np.repeat(np.arange(len(opening)) * around + before, totals)] = memory.tokens[sources]
        for position, token in enumerate(self._first):
            ids[starts + position] = token
        for position, token in enumerate(self._last):
            ids[starts + lengths - len(self._last) + position] = token
        return PackedTokens(ids, starts, lengths, whole_lengths)


class _Memory:
    """Words seen so far: an open-addressed table from hashes to numbers, and by number a word's bytes and tokens.

    It belongs to one process: a fork may come while another thread is adding words, and would copy half of them into
    the child, behind a lock that nobody there releases.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self.lock = threading.Lock()
        size = 1 << _SLOTS_BITS
        self._hashes = np.zeros(size, np.uint64)
        self._numbers = np.full(size, -1, np.int64)
        self.starts = np.zeros(0, np.int64)
        self.counts = np.zeros(0, np.int64)
        self.tokens = np.zeros(0, np.int32)
        self._letters = np.zeros(0, np.uint8)  # the bytes of all words
        self._letter_starts = np.zeros(0, np.int64)
        self._letter_counts = np.zeros(0, np.int64)

    @property
    def full(self) -> bool:
        return len(self.counts) > REMEMBERED or len(self.tokens) > POOL or len(self._letters) > LETTERS

    def find(self, hashes: _Hash) -> _Int:
        """The number of each word; -1 for a new one."""
        slots = _slots(hashes)
        numbers = self._numbers[slots]
        # Where another word has the slot, this one may be in a later slot, up to the first empty one.
        pending = np.flatnonzero((self._hashes[slots] != hashes) & (numbers >= 0))
        while len(pending):
            slots[pending] = (slots[pending] + 1) & (len(self._hashes) - 1)
            here = slots[pending]
            match = self._hashes[here] == hashes[pending]
            numbers[pending] = np.where(match, self._numbers[here], -1)
            pending = pending[~match & (self._numbers[here] >= 0)]
        return numbers

    def different(self, numbers: _Int, letters: npt.NDArray[np.uint8], lengths: _Int) -> _Int:
        """The indices of words that are not the word of their number; `letters` are the bytes of all of them."""
        wrong = self._letter_counts[numbers] != lengths
        # A word of another length may reach past the end of the last one.
        unlike = self._letters.take(ranges(self._letter_starts[numbers], lengths), mode="clip") != letters
        if unlike.any():
            wrong[np.repeat(np.arange(len(lengths)), lengths)[unlike]] = True
        return np.flatnonzero(wrong)

    def learn(self, hashes: _Hash, letters: npt.NDArray[np.uint8], lengths: _Int, tokens: PackedTokens) -> None:
        """Add new words, each with its tokens, to be found by their hashes, which all differ.

        One thread at a time, but others may be looking words up: the tokens must be there before the words are.
        """
        numbers, slots = self.append(letters, lengths, tokens), _slots(hashes)
        pending = np.arange(len(hashes))
        while len(pending):
            free = pending[self._numbers[slots[pending]] < 0]
            placed = free[np.unique(slots[free], return_index=True)[1]]  # one where several want a slot
            self._hashes[slots[placed]] = hashes[placed]
            self._numbers[slots[placed]] = numbers[placed]
            pending = pending[self._hashes[slots[pending]] != hashes[pending]]
            slots[pending] = (slots[pending] + 1) & (len(self._hashes) - 1)

    def append(self, letters: npt.NDArray[np.uint8], lengths: _Int, tokens: PackedTokens) -> _Int:
        """Number words that are not to be found by their hash; one thread at a time."""
        known = len(self.counts)
        starts = len(self.tokens) + tokens.starts
        self._letter_starts = np.concatenate([self._letter_starts, len(self._letters) + np.cumsum(lengths) - lengths])
        self._letters = np.concatenate([self._letters, letters])
        self._letter_counts = np.concatenate([self._letter_counts, lengths])
        self.tokens = np.concatenate([self.tokens, tokens.ids])
        self.starts = np.concatenate([self.starts, starts])
        self.counts = np.concatenate([self.counts, tokens.lengths])
        return np.arange(known, len(self.counts))


def _slots(hashes: _Hash) -> _Int:
    return ((hashes * np.uint64(_SPREAD)) >> np.uint64(64 - _SLOTS_BITS)).astype(np.int64)


def _powers(base: int, count: int) -> _Hash:
    return np.cumprod(np.concatenate([np.ones(1, np.uint64), np.full(count - 1, base, np.uint64)]), dtype=np.uint64)


def _chunks(texts: list[str]) -> Iterator[tuple[bytes, list[str]]]:
    """Texts joined by zero bytes, as many at a time as fit a chunk."""
    begin = size = 0
    for index, text in enumerate(texts):
        # A character takes at most four bytes, and in most texts one.
        needed = len(text) + 1 if text.isascii() else 4 * len(text) + 1
        if size + needed > CHUNK and index > begin:
            yield "\0".join(texts[begin:index]).encode(), texts[begin:index]
            begin, size = index, 0
        size += needed
    yield "\0".join(texts[begin:]).encode(), texts[begin:]


def tokenizes_words(tokenizer: Tokenizer) -> bool:
    """Whether it tokenizes each word on its own, as the BERT family does."""
    parts = (tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.model)
    if not all(isinstance(part, kind) for part, kind in zip(parts, _WORD_BY_WORD, strict=True)):
        return False
    return not any(" " in token.content for token in tokenizer.get_added_tokens_decoder().values())


def word_cache_for(tokenizer: Tokenizer, max_tokens: int, direction: str = "right") -> WordCache | None:
    """`tokenizer`, from now on the cache's own, with a cache of words if it tokenizes each on its own; else `None`."""
    if direction != "right" or not tokenizes_words(tokenizer):
        return None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # One ordinary word shows where the special tokens go.
    probe = tokenizer.encode("a")
    inner = [index for index, special in enumerate(probe.special_tokens_mask) if not special]
    if not inner or probe.ids[inner[0] : inner[-1] + 1] != tokenizer.encode("a", add_special_tokens=False).ids:
        return None
    return WordCache(tokenizer, max_tokens, probe.ids[: inner[0]], probe.ids[inner[-1] + 1 :])
