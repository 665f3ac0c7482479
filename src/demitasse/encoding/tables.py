"""Tables as users hold them (pandas, polars, Arrow, Hugging Face, a dict of columns), by column; none is imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, SupportsIndex, overload

from demitasse.errors import DataError

TEXT = "text"  # the column that is read unless another is named
_CHUNK = 1024  # values turned into Python objects at a time: a column may be larger than memory allows as a list
_LOOKED_AT = 1000  # values of a column, in search of one that is not missing
_AS_LIST = ("to_pylist", "to_list", "tolist")  # Arrow, polars and pandas, numpy


class Column(Sequence[Any]):
    """One column of a table as plain Python values, made a few at a time; a missing value is None."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if isinstance(index, slice):
            return _plain(self._values.iloc[index] if hasattr(self._values, "iloc") else self._values[index])
        place = range(len(self))[index]
        return self[place : place + 1][0]

    def __iter__(self) -> Iterator[Any]:
        for start in range(0, len(self), _CHUNK):
            yield from self[start : start + _CHUNK]


def listed(names: Iterable[object]) -> str:
    """The names of columns for a message: the first twenty, none of them long.

    >>> listed(["id", "text"])
    'id, text'
    """
    known = [" ".join(str(name).split())[:40] for name in names]
    return ", ".join([*known[:20], f"… and {len(known) - 20} more"] if len(known) > 20 else known) or "none"


def columns_of(given: object) -> dict[str, Column] | None:
    """The columns of a table, by name and all of one length; None if `given` is not a table.

    A table is a pandas or polars DataFrame, an Arrow table, a Hugging Face dataset or a dict of lists.

    >>> columns = columns_of({"id": [1, 2], "text": ["a cup", "a mug"]})
    >>> {name: list(values) for name, values in columns.items()}
    {'id': [1, 2], 'text': ['a cup', 'a mug']}
    >>> columns_of(["a cup", "a mug"]) is None
    True
    """
    kind = type(given).__name__
    names = _names(given)
    if names is not None:
        table: Any = given
        named = [(name, Column(table[name])) for name in names]
    elif isinstance(given, Mapping):
        named = [(name, _column_of(kind, name, values)) for name, values in given.items()]
    else:
        return None
    columns = {str(name): column for name, column in named}
    if len(columns) < len(named):
        raise DataError(
            f"the {kind} has two columns of one name ({listed(name for name, _ in named)}); give each its own"
        )
    lengths = {name: len(column) for name, column in columns.items()}
    if len({*lengths.values()}) > 1:
        each = listed(f"{name} {length}" for name, length in lengths.items())
        raise DataError(f"the columns of the {kind} have different lengths ({each}); give them as many values each")
    return columns


def text_column(columns: Mapping[str, Sequence[Any]], wanted: str | None = None, *, option: str | None = None) -> str:
    """The name of the column with the texts: `wanted`, else `text`, else the only one that holds strings.

    `option` is how the user can name a column, such as --column, for the message.

    >>> text_column({"id": [1, 2], "title": [None, "a mug"]})
    'title'
    """
    if wanted is not None:
        if wanted not in columns:
            raise DataError(f"there is no column {wanted!r}; the columns are {listed(columns)}")
        return wanted
    if TEXT in columns:
        return TEXT
    strings = [name for name, values in columns.items() if isinstance(_first(values), str)]
    if len(strings) == 1:
        return strings[0]
    why = f"{len(strings)} columns hold strings" if strings else "no column holds strings"
    cure = f"name one with {option}" if option else "call the one to use 'text', or give that column alone"
    raise DataError(f"there is no column 'text', and {why} (columns: {listed(columns)}); {cure}")


def _names(table: Any) -> list[Any] | None:
    """The names of the columns of something that looks like a table; None if it does not."""
    kind = type(table).__name__
    if callable(getattr(table, "collect", None)) and not hasattr(type(table), "__len__"):
        raise DataError(f"a {kind} has not been computed yet; give what its collect() returns")
    if not all(hasattr(table, part) for part in ("__len__", "__getitem__")):
        return None
    names = getattr(table, "column_names", None)  # of an Arrow table, whose `columns` are the columns themselves
    if names is None:
        names = getattr(table, "columns", None)
    if isinstance(names, Mapping):
        raise DataError(
            f"a {kind} with several splits was given ({listed(names)}); give one of them, such as data['train']"
        )
    return [*names] if isinstance(names, Iterable) else None


def _column_of(kind: str, name: object, values: Any) -> Column:
    try:
        if not isinstance(values, (str, bytes, Mapping)) and len(values) >= 0 and hasattr(values, "__getitem__"):
            return Column(values)
    except TypeError:
        pass
    held = type(values).__name__
    raise DataError(f"{name!r} of the {kind} is a {held}, not a list; give a list of values for each column")


def _plain(values: Any) -> list[Any]:
    """A piece of a column as a list of Python values."""
    to_list = next((getattr(values, name) for name in _AS_LIST if hasattr(values, name)), None)
    plain = list(values) if to_list is None else to_list()
    if hasattr(values, "isna"):  # pandas has several values that stand for a missing one, and NaN is a float
        return [None if missing else value for value, missing in zip(plain, values.isna().tolist(), strict=True)]
    return plain


def _first(values: Sequence[Any]) -> Any:
    """The first value that is not missing."""
    return next((value for value in islice(values, _LOOKED_AT) if value is not None), None)
