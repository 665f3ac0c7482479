"""The tokens of single words, many at a time.

A tokenizer takes longer to be asked about a word than to tokenize it. Plain words, those of ASCII letters and digits,
are therefore strung together with spaces and tokenized as a few long texts. Which tokens begin a word can be told from
the tokens: those that go on with one have a prefix (`##`), which no plain word has in it.
"""

from __future__ import annotations

import string
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.encoding.tokenizer_errors import told

RUNS = 8  # long texts at most, which the tokenizer reads at the same time
RUN = 256  # words in each, at least
_PLAIN = np.zeros(256, np.bool_)
_PLAIN[[ord(letter) for letter in string.ascii_letters + string.digits]] = True

_Int = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]


class WordTokenizer:
    """What `tokenizer` gives for each word, without special tokens; it must tokenize each word on its own."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @cached_property
    def _goes_on(self) -> npt.NDArray[np.bool_] | None:
        """Of each token, whether it goes on with a word; `None` where words cannot be strung together."""
        prefix = str(self._tokenizer.model.continuing_subword_prefix)
        added = [token.content for token in self._tokenizer.get_added_tokens_decoder().values()]
        # What has punctuation in it is found neither in a plain word nor, as an added token, in several of them.
        if not all(set(string.punctuation) & set(text) for text in [prefix, *added]):
            return None
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        goes_on = np.zeros(max(vocabulary.values(), default=0) + 1, np.bool_)
        goes_on[[number for token, number in vocabulary.items() if token.startswith(prefix)]] = True
        return goes_on

    def tokens(self, letters: _Bytes, lengths: _Int) -> PackedTokens:
        """The tokens of each word; `letters` are the bytes of all words, one word after the other."""
        if self._goes_on is None:
            return self._each(letters, lengths)
        odd = np.append(0, np.cumsum(~_PLAIN[letters]))
        ends = np.cumsum(lengths)
        plain = (lengths > 0) & (odd[ends] == odd[ends - lengths])
        if not plain.any():
            return self._each(letters, lengths)
        if plain.all():
            return self._strung(letters, lengths, self._goes_on)
        of_plain = np.repeat(plain, lengths)
        parts = [
            self._strung(letters[of_plain], lengths[plain], self._goes_on),
            self._each(letters[~of_plain], lengths[~plain]),
        ]
        places = np.argsort(np.concatenate([np.flatnonzero(plain), np.flatnonzero(~plain)]))
        return PackedTokens.joined(parts).ordered(places)

    def _strung(self, letters: _Bytes, lengths: _Int, goes_on: npt.NDArray[np.bool_]) -> PackedTokens:
        """The tokens of words that are all plain."""
        count = len(lengths)
        spaced = np.full(len(letters) + count, ord(" "), np.uint8)
        spaced[np.arange(len(letters)) + np.repeat(np.arange(count), lengths)] = letters
        share = max(RUN, -(-count // RUNS))
        ends = np.append(0, np.cumsum(lengths + 1))[[*range(0, count, share), count]].tolist()
        text = spaced.tobytes().decode("ascii")
        runs = [text[begin:end] for begin, end in pairwise(ends)]
        ids = np.concatenate([np.array(one, np.int32) for one in self.ids(runs)])
        starts = np.flatnonzero(~goes_on[ids])
        assert len(starts) == count
        counts = np.diff(starts, append=len(ids))
        return PackedTokens(ids, starts, counts, counts)

    def _each(self, letters: _Bytes, lengths: _Int) -> PackedTokens:
        ends = np.cumsum(lengths).tolist()
        data = letters.tobytes()
        words = [data[end - size : end].decode() for end, size in zip(ends, lengths.tolist(), strict=True)]
        return PackedTokens.of(self.ids(words))

    def ids(self, texts: list[str]) -> list[list[int]]:
        """The tokens of each text, whatever is in it, without special tokens."""
        with told("the model's tokenizer fails"):
            return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
