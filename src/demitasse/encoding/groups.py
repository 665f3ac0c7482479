"""`encode_groups`: group after group of texts, such as the shards of a corpus, without a pause between two of them.

`encode` ends when its last vector is there, and what runs the model has nothing to do until the next call has tokenized
its first texts. Here those of the next group are on their way by then. No window of texts has texts of two groups, so
that the vectors of a group are what `encode` gives for it, to the last bit, whatever comes before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from demitasse.encoding.encoder import Encoder
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.encoding.token_tally import TokenTally
from demitasse.encoding.vectors import Vectors
from demitasse.host.progress import Advance


@dataclass(frozen=True)
class EncodedGroup:
    """The vectors of a group of texts, in windows, and what was read of it."""

    windows: list[Vectors]
    tally: TokenTally


def encode_groups(
    encoder: Encoder, groups: Iterable[Iterable[str]], prefix: str, advance: Advance
) -> Iterator[EncodedGroup]:
    """The vectors of each of `groups`, in order, with `prefix` before each text.

    The next group is taken while this one is computed. `advance` is called with the number of texts done since the last
    call.

    >>> groups = [["a ristretto", "a lungo"], [], ["a small cup"]]
    >>> [sum(map(len, group.windows)) for group in encode_groups(encoder, groups, "", lambda done: None)]
    [2, 0, 1]
    """
    begun: deque[_Group] = deque()
    tallies = _Tallies()
    cut = encoder.full

    def windows() -> Iterator[list[str]]:
        for texts in groups:
            group = _Group()
            begun.append(group)
            for window in encoder._windows(texts):
                group.sizes.append(len(window))
                yield window
            group.whole = True

    for vectors in encoder._embed_windows(windows(), [cut], prefix, tallies, advance):
        # No variable holds a group: its vectors would stay in memory while the next one is computed.
        next(group for group in begun if group.sizes).take(vectors[cut], tallies)
        while begun and begun[0].done:
            yield begun.popleft().encoded
    yield from (group.encoded for group in begun)


@dataclass
class _Group:
    """A group that was begun."""

    encoded: EncodedGroup = field(default_factory=lambda: EncodedGroup([], TokenTally()))
    sizes: deque[int] = field(default_factory=deque)  # of the windows whose vectors are not there yet
    whole: bool = False  # whether there are no more windows of it

    @property
    def done(self) -> bool:
        return self.whole and not self.sizes

    def take(self, vectors: Vectors, tallies: _Tallies) -> None:
        assert self.sizes.popleft() == len(vectors)
        self.encoded.windows.append(vectors)
        tallies.move(len(vectors), self.encoded.tally)


class _Tallies(TokenTally):
    """Keeps what was counted apart until the vectors of the texts are there."""

    def __init__(self) -> None:
        super().__init__()
        self._counted: deque[TokenTally] = deque()

    def add(self, packed: PackedTokens, limit: int) -> None:
        one = TokenTally()
        one.add(packed, limit)
        self._counted.append(one)

    def move(self, texts: int, to: TokenTally) -> None:
        """Count the next `texts` texts there."""
        while texts:
            one = self._counted.popleft()
            to.merge(one)
            texts -= one.texts
