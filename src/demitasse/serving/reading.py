"""Texts of requests as tokens. Runs in threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from demitasse.encoding.encoder import Encoder
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.encoding.text_checks import checked
from demitasse.serving.messages import Asked, Kind
from demitasse.serving.refusals import TextTooLong


class Prompts:
    """The prompt of each kind of text, and how many tokens of it pooling leaves out."""

    def __init__(self, encoder: Encoder) -> None:
        reader = encoder.reader
        kinds: tuple[Kind, ...] = (None, "query", "document")
        self.texts: Mapping[Kind, str] = {kind: reader.prefix(kind) for kind in kinds}
        self.left_out: Mapping[Kind, int] = {
            kind: 0 if encoder.pooling.include_prompt else reader.prompt_tokens(prompt)
            for kind, prompt in self.texts.items()
        }


@dataclass(frozen=True)
class Unread:
    """Strings of one kind that may be truncated."""

    texts: Sequence[str]
    kind: Kind

    def part(self, begin: int, end: int) -> Unread:
        """Some of them."""
        return Unread(self.texts[begin:end], self.kind)


def read(encoder: Encoder, prompts: Prompts, asked: Asked) -> PackedTokens:
    """The tokens of the texts of a request; `TextTooLong` if one would have to be truncated and may not be."""
    texts, prompt = asked.texts, prompts.texts[asked.kind]
    if texts and not isinstance(texts[0], str):
        packed = encoder.reader.read_ids(texts, prompt)  # type: ignore[arg-type]
    else:
        packed = encoder.reader.read(list(checked(texts)), prompt)  # type: ignore[arg-type]
    too_long = np.flatnonzero(packed.truncated)
    if len(too_long) and not asked.truncate:
        index = int(too_long[0])
        raise TextTooLong(index, int(packed.whole_lengths[index]), encoder.max_seq_length)
    return packed


def read_all(encoder: Encoder, prompts: Prompts, given: Sequence[Unread]) -> list[PackedTokens | Exception]:
    """The tokens of the texts of several requests, or why they have none."""
    found: dict[int, PackedTokens] = {}
    for kind in {texts.kind for texts in given}:
        # Those of one kind are read together, which is faster.
        alike = [number for number, texts in enumerate(given) if texts.kind == kind]
        together = [text for number in alike for text in given[number].texts]
        with suppress(Exception):  # one of them is at fault: each is read alone, to tell which
            packed = encoder.reader.read(list(checked(together)), prompts.texts[kind])
            ends = list(accumulate(len(given[number].texts) for number in alike))
            for number, begin, end in zip(alike, [0, *ends[:-1]], ends, strict=True):
                found[number] = packed.part(begin, end)
    return [
        found[number] if number in found else _read_alone(encoder, prompts, texts) for number, texts in enumerate(given)
    ]


def _read_alone(encoder: Encoder, prompts: Prompts, given: Unread) -> PackedTokens | Exception:
    try:
        return encoder.reader.read(list(checked(given.texts)), prompts.texts[given.kind])
    except Exception as problem:  # whatever it is, it is handed to whom it concerns
        return problem
