"""A JSON array of any size, read value by value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from demitasse.errors import DataError, reason

MAX_VALUE = 64 << 20  # characters; a longer value is no row, and would fill the memory
_AFTER_VALUE = {*", ]\t\n\r"}
_BLANKS = re.compile(r"[ \t\n\r]*")


def array_values(pieces: Iterator[str], name: str) -> Iterator[Any]:
    """The values of the array that the text in `pieces` is; errors call it `name` and give the number of the value.

    >>> list(array_values(iter(['[{"a": ', '1}, [2', '], "x"]']), "rows.json"))
    [{'a': 1}, [2], 'x']
    """
    text = _Text(pieces, name)
    if text.take() != "[":
        raise text.problem("it does not start with [")
    if text.next_character() == "]":
        text.take()
    else:
        while True:
            yield text.value()
            after = text.take()
            if after == "]":
                break
            if after != ",":
                raise text.problem(f"{after!r} stands before it, not a comma" if after else "the array does not end")
    if text.next_character():
        cure = "give the file one array, or call it .jsonl if every line is a row"
        raise DataError(f"{name} goes on after the end of its array; {cure}")


class _Text:
    """A text that comes in pieces, of which only what has not been read yet is in memory."""

    def __init__(self, pieces: Iterator[str], name: str) -> None:
        self._pieces, self._name = pieces, name
        self._text, self._at, self._values = "", 0, 0
        self._decode = json.JSONDecoder().raw_decode

    def next_character(self) -> str:
        """The next character that is not blank, which stays; nothing at the end."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            self._at = blanks.end() if blanks else self._at
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def take(self) -> str:
        """The next character that is not blank; nothing at the end."""
        character = self.next_character()
        self._at += len(character)
        return character

    def value(self) -> Any:
        """The next value."""
        self.next_character()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except RecursionError as problem:
                raise self.problem(reason(problem)) from None
            except ValueError as problem:  # wrong, or not all of it is here yet
                if self._more():
                    continue
                raise self.problem(getattr(problem, "msg", reason(problem))) from None
            if self._text[end : end + 1] in _AFTER_VALUE or not self._more():  # the rest of a number may be to come
                self._at = end
                self._values += 1
                return value

    def problem(self, why: str) -> DataError:
        """That the value which was read last, or comes next, cannot be used."""
        return DataError(f"{self._name} row {self._values} is not JSON ({why}); give an array of rows, or .jsonl lines")

    def _more(self) -> bool:
        """Let go of what has been read, and double what is left; false at the end."""
        left = self._text[self._at :]
        if len(left) > MAX_VALUE:
            raise self.problem(f"it does not end within {MAX_VALUE >> 20} MB")
        added = []
        missing = max(len(left), 1)
        for piece in self._pieces:
            added.append(piece)
            missing -= len(piece)
            if missing <= 0:
                break
        self._text, self._at = left + "".join(added), 0
        return any(added)
