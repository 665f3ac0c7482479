"""What the tokenizers library does with a bad file, as one sentence.

It raises plain `Exception`, panics in a way that is not even that, and ends the process where it cannot have memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demitasse.errors import DemitasseError, FolderError, reason

# A whole number of eight digits or more that is the value of a field. A vocabulary has hundreds of thousands of fields:
# what else is asked of one, is asked of those that are found.
_LARGE = re.compile(rb'"\s*:\s*(\d{8,})')
_NO_ID = (b"\\", b"max_length")  # a quote inside a name; where to truncate


@contextmanager
def told(what: str, cure: str = "copy, save or export the model again") -> Iterator[None]:
    """A `FolderError` that says `what` failed, instead of whatever is raised inside.

    >>> with told("the tokenizer fails", "copy it again"):
    ...     raise Exception("no entry found for key")
    Traceback (most recent call last):
    demitasse.errors.FolderError: the tokenizer fails (no entry found for key); copy it again
    """
    try:
        yield
    except (DemitasseError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as problem:
        raise FolderError(f"{what} ({reason(problem)}); {cure}") from problem


def check_ids(content: bytes, path: Path) -> None:
    """Refuse a tokenizer.json with a gigantic id: the library makes room for every id up to the largest.

    >>> check_ids(b'{"vocab": {"a": 2147483647}}', Path("tokenizer.json"))
    Traceback (most recent call last):
    demitasse.errors.FolderError: tokenizer.json has a token with the id 2147483647; copy it again
    """
    for found in _LARGE.finditer(content):
        if not content.endswith(_NO_ID, 0, found.start()):
            raise FolderError(f"{path} has a token with the id {found[1].decode():.20}; copy it again")
