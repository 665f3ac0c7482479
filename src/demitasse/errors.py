"""Every error demitasse raises on purpose.

    DemitasseError
    ├── CutError      (ValueError)   a cut that cannot be read or does not fit the encoder
    ├── BackboneError (ValueError)   a model that cannot be cut, such as one that shares its layers
    ├── FolderError   (ValueError)   a model folder that is missing, broken, not ours or not writable
    │   └── FullDisk                 a disk, or a quota on it, that is full
    ├── DataError     (ValueError)   texts, prompts or sentences that cannot be used
    │   └── NothingFits              a budget that nothing measured fits (planning.budget)
    ├── DeviceError   (ValueError)   a device or number format this machine does not have
    ├── TrainingError (RuntimeError) training that went wrong, such as a NaN loss
    ├── TrainingStopped (RuntimeError) training that was asked to stop, and saved its state
    └── MissingExtra  (ImportError)  an optional part that is not installed

Each message is one sentence: what was given, what is allowed, what to do. Each class is also the ordinary
Python error, so `except ValueError` works without importing anything from here.
"""

from __future__ import annotations


class DemitasseError(Exception):
    """The base class: catch this to catch all of them."""


def reason(problem: BaseException) -> str:
    """The first line of an error from another library, short enough to go inside one of our sentences."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:200]


def file_reason(problem: Exception) -> str:
    """What the system says about a file, without the file's name, which our sentence has already.

    >>> file_reason(FileNotFoundError(2, "No such file or directory", "a.txt")), file_reason(ValueError("null byte"))
    ('No such file or directory', 'null byte')
    """
    return getattr(problem, "strerror", None) or reason(problem)


def shown(value: object) -> str:
    """A wrong value inside a sentence: itself if it is short, else its type.

    >>> shown("banana"), shown(list(range(99)))
    ("'banana'", 'a list')
    """
    try:
        text = repr(value)
    except Exception:  # a number of thousands of digits, say, or lists in lists without end
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 and "\n" not in text and " at 0x" not in text else f"a {type(value).__name__}"


class CutError(DemitasseError, ValueError):
    """A cut that cannot be read, or that is deeper or wider than the encoder."""


class BackboneError(DemitasseError, ValueError):
    """A model that cannot be cut, with the reason."""


class FolderError(DemitasseError, ValueError):
    """A model folder that cannot be read or written."""


class FullDisk(FolderError):  # noqa: N818 - it names what is wrong
    """A disk, or a quota on it, that is full."""


class DataError(DemitasseError, ValueError):
    """Texts, prompts or sentences that cannot be used."""


class TrainingError(DemitasseError, RuntimeError):
    """Training that went wrong, with the step and the examples."""


class TrainingStopped(DemitasseError, RuntimeError):  # noqa: N818 - not an error: the user asked for it
    """Training that was asked to stop, and saved its state."""


class DeviceError(DemitasseError, ValueError):
    """A device or number format that this machine does not offer."""


class MissingExtra(DemitasseError, ImportError):  # noqa: N818 - it names what is missing
    """An optional part that is not installed; the message has the line to type."""
