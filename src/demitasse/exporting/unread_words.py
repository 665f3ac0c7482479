"""Words that no text can hold, such as BERT's 994 [unused…]: their rows in the word table become zeros, and pack well.

The base install has no library for ONNX, so the few fields of its format (protobuf) that lead to the table are read
here.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator

from tokenizers import Tokenizer

_GRAPH, _NODE, _INITIALIZER = 7, 1, 5  # of a model, and two of a graph
_NODE_INPUT = 1
_DIMS, _NAME, _RAW = 1, 8, 9  # of a tensor
_LENGTH, _FIXED = 2, {1: 8, 5: 4}  # wire types: one with a length, and those of a fixed size


def unread_words(tokenizer: bytes, kept: Container[int] = ()) -> list[int]:
    """The ids that no text gives: words that BERT's own first split would take apart. Those of `kept` are left out."""
    described = json.loads(tokenizer)
    model = described["model"]
    if model.get("type") != "WordPiece" or (described["pre_tokenizer"] or {}).get("type") != "BertPreTokenizer":
        return []
    split = Tokenizer.from_str(tokenizer.decode()).pre_tokenizer.pre_tokenize_str
    added = {token["id"] for token in described["added_tokens"]}  # found in a text before it is split
    prefix = model["continuing_subword_prefix"]
    return sorted(
        number
        for word, number in model["vocab"].items()
        if number not in added and number not in kept and word != model["unk_token"]
        if all(len(split(form)) > 1 for form in (word, word.removeprefix(prefix)))
    )


def with_zeros(block: bytes, words: list[int]) -> bytes:
    """The embeddings block with zeros in the rows of `words` of every table that is asked for by the ids of tokens."""
    changed = bytearray(block)
    parts = [
        (number, start, end)
        for outer, begin, stop in _fields(block, 0, len(block))
        if outer == _GRAPH
        for number, start, end in _fields(block, begin, stop)
    ]
    read = set()
    for number, start, end in parts:
        if number == _NODE:
            inputs = [block[at:to] for field, at, to in _fields(block, start, end) if field == _NODE_INPUT]
            if inputs[1:] == [b"input_ids"]:  # Gather: a table, and which rows of it
                read.add(inputs[0])
    for number, start, end in parts:
        if number == _INITIALIZER:
            fields = list(_fields(block, start, end))
            names = [block[at:to] for field, at, to in fields if field == _NAME]
            rows = next((_number(block, at)[0] for field, at, _ in fields if field == _DIMS), 0)
            for field, at, to in fields:
                if field == _RAW and read.issuperset(names):
                    size = (to - at) // rows
                    for word in [one for one in words if one < rows]:
                        changed[at + word * size : at + (word + 1) * size] = bytes(size)
    return bytes(changed)


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The number of each field, and from where to where its value is."""
    while at < end:
        key, at = _number(data, at)
        kind = key & 7
        if kind == _LENGTH:
            length, at = _number(data, at)
        elif kind == 0:
            length = _number(data, at)[1] - at
        else:
            length = _FIXED[kind]
        yield key >> 3, at, at + length
        at += length


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A varint, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
