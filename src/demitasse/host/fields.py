"""What a JSON file says, asked for field by field, each with the kind of value it must have.

A file may come from anywhere: another release, a stranger, a bad disk. Whatever it holds, what does not fit ends in one
sentence that names the file and the field and says what belongs there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

from demitasse.cut import Cut
from demitasse.errors import CutError, DemitasseError, FolderError

LARGEST = 1 << 53  # the largest whole number that every program reads from JSON as it is
LARGEST_FLOAT = sys.float_info.max
_Value = TypeVar("_Value")


class Fields:
    """The fields of an object in a JSON file; `null` counts as missing.

    >>> fields = Fields({"batch": 0, "model": "tiny"}, "profile.json", "measure again")
    >>> fields.text("model")
    'tiny'
    >>> fields.whole("batch", least=1)
    Traceback (most recent call last):
    demitasse.errors.FolderError: profile.json: batch must be a whole number of at least 1, not 0; measure again
    """

    def __init__(
        self,
        value: object,
        file: str | Path,
        cure: str,
        error: type[DemitasseError] = FolderError,
        at: str = "",
    ) -> None:
        self._file, self._cure, self._error, self._at = file, cure, error, at
        if not isinstance(value, dict):
            raise self._refusal(at or "it", "an object", value)
        self._values = value

    def empty(self) -> Fields:
        """No fields at all, of the same file."""
        return Fields({}, self._file, self._cure, self._error, self._at)

    def names(self) -> list[str]:
        """The names of all fields, `null` or not."""
        return list(self._values)

    def all(self) -> dict[str, Any]:
        """Every field, whatever it is."""
        return dict(self._values)

    def has(self, name: str) -> bool:
        """Whether the field is there and not `null`."""
        return self._values.get(name) is not None

    def plain(self, name: str) -> Any:
        """The field, whatever it is."""
        if not self.has(name):
            raise self.problem(f"has no field '{self._path(name)}'")
        return self._values[name]

    def name(self, name: str) -> str:
        """A string that may be the name of a file, which need not be valid UTF-8."""
        return self._kind(name, str, "a string")

    def text(self, name: str) -> str:
        """A string that can be written as UTF-8."""
        return self._utf8(self._path(name), self.name(name))

    def flag(self, name: str) -> bool:
        """True or false."""
        return self._kind(name, bool, "true or false")

    def whole(self, name: str, least: int = 0, most: int = LARGEST) -> int:
        """A whole number between two others."""
        return self._whole(self._path(name), self.plain(name), least, most)

    def number(self, name: str, least: float = -LARGEST_FLOAT, most: float = LARGEST_FLOAT) -> float:
        """A finite number."""
        return self._number(self._path(name), self.plain(name), least, most)

    def choice(self, name: str, allowed: Collection[str]) -> str:
        """One of a few words."""
        value = self.plain(name)
        if not isinstance(value, str) or value not in allowed:
            raise self._refusal(self._path(name), f"one of {', '.join(allowed)}", value)
        return value

    def cut(self, name: str) -> Cut:
        """A cut, such as `6x128`."""
        try:
            return Cut.parse(self.plain(name))
        except CutError:
            raise self._refusal(self._path(name), "a cut such as 6x128", self.plain(name)) from None

    def inside(self, name: str) -> Fields:
        """The fields of an object inside this one."""
        return Fields(self.plain(name), self._file, self._cure, self._error, self._path(name))

    def each(self, name: str) -> list[Fields]:
        """The fields of each object of a list."""
        return self._list(name, lambda at, value: Fields(value, self._file, self._cure, self._error, at))

    def texts(self, name: str) -> list[str]:
        """A list of strings."""
        return self._list(name, self._text)

    def wholes(self, name: str, most: int = LARGEST) -> list[int]:
        """A list of whole numbers from 0 on."""
        return self._list(name, lambda at, value: self._whole(at, value, 0, most))

    def whole_of(self, name: str) -> dict[str, int]:
        """An object whose fields are all whole numbers from 0 on."""
        return {key: self.inside(name).whole(key) for key in self.inside(name).names()}

    def number_of(self, name: str) -> dict[str, float]:
        """An object whose fields are all finite numbers."""
        return {key: self.inside(name).number(key) for key in self.inside(name).names()}

    def text_of(self, name: str) -> dict[str, str]:
        """An object whose fields are all strings, under names that are strings that can be written, too."""
        inside = self.inside(name)
        return {self._utf8(f"a name in {self._path(name)}", key): inside.text(key) for key in inside.names()}

    def problem(self, what: str) -> DemitasseError:
        """The error that says `what` is wrong with the file."""
        return self._error(f"{self._file} {what}; {self._cure}")

    def _path(self, name: str) -> str:
        shown = name if name.isidentifier() and name.isascii() and len(name) <= 60 else shown_json(name)
        return f"{self._at}.{shown}" if self._at else shown

    def _kind(self, name: str, kind: type[_Value], wanted: str) -> _Value:
        value = self.plain(name)
        if not isinstance(value, kind):
            raise self._refusal(self._path(name), wanted, value)
        return value

    def _list(self, name: str, read: Callable[[str, object], _Value]) -> list[_Value]:
        values = self._kind(name, list, "a list")
        return [read(f"{self._path(name)}[{index}]", value) for index, value in enumerate(values)]

    def _text(self, at: str, value: object) -> str:
        if not isinstance(value, str):
            raise self._refusal(at, "a string", value)
        return self._utf8(at, value)

    def _utf8(self, at: str, value: str) -> str:
        try:
            value.encode()
        except UnicodeEncodeError:  # half a surrogate pair
            raise self._refusal(at, "valid Unicode", value) from None
        return value

    def _whole(self, at: str, value: object, least: int, most: int) -> int:
        # bool is an int in Python, but true is not a number.
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            limits = f"of at least {least}" if most == LARGEST else f"from {least} to {most}"
            raise self._refusal(at, f"a whole number {limits}", value)
        return value

    def _number(self, at: str, value: object, least: float, most: float) -> float:
        if not isinstance(value, bool) and isinstance(value, (int, float)) and least <= value <= most:
            return float(value)
        lower = f" of at least {least:g}" if least > -LARGEST_FLOAT else ""
        upper = f" of at most {most:g}" if most < LARGEST_FLOAT else ""
        raise self._refusal(at, f"a finite number{' and'.join(filter(None, (lower, upper)))}", value)

    def _refusal(self, at: str, wanted: str, value: object) -> DemitasseError:
        return self._error(f"{self._file}: {at} must be {wanted}, not {shown_json(value)}; {self._cure}")


def shown_json(value: object) -> str:
    """A value of JSON in a few words; a container may be nested deeper than `repr` can follow."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    shown = ascii(value) if isinstance(value, str) else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
