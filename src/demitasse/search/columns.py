"""The metadata of an index by field: read when a filter first asks for a field, and then only what was added since."""

from __future__ import annotations

import json
import threading

import numpy as np
import numpy.typing as npt

from demitasse.search.catalog import Catalog
from demitasse.search.filters import Column

_Codes = npt.NDArray[np.int32]


class Columns:
    """The fields that were asked for so far. All states of an index share them: metadata of a row never change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._codes: dict[str, _Codes] = {}  # by row: the number of its value, -1 for none
        self._numbers: dict[str, dict[str, int]] = {}  # of each value, as JSON

    def column(self, field: str, catalog: Catalog, end: int) -> Column:
        """For each row below `end` the number of its value, and the values."""
        with self._lock:
            known = self._codes.get(field, np.zeros(0, np.int32))
            numbers = self._numbers.setdefault(field, {})
            if len(known) < end:
                codes = np.full(end, -1, np.int32)
                codes[: len(known)] = known
                for row, metadata in catalog.each_metadata(len(known) - 1):
                    value = metadata.get(field)
                    if value is not None and 0 <= row < end:
                        codes[row] = numbers.setdefault(json.dumps(value), len(numbers))
                self._codes[field] = known = codes
            return known[:end], [json.loads(value) for value in numbers]
