"""Every error demitasse raises on purpose.

    DemitasseError
    ├── CutError      (ValueError)   a cut that cannot be read or does not fit the encoder
    ├── BackboneError (ValueError)   a model that cannot be cut, such as one that shares its layers
    ├── FolderError   (ValueError)   a model folder that is missing, broken, foreign or not writable
    ├── DataError     (ValueError)   texts, prompts or sentences that cannot be used
    │   └── NothingFits              a budget that nothing measured keeps (planning.budget)
    ├── DeviceError   (ValueError)   a device or number format this machine does not have
    ├── TrainingError (RuntimeError) training that went wrong, such as a loss that is no number
    ├── TrainingStopped (RuntimeError) training that was asked to stop, and saved where it was
    └── MissingExtra  (ImportError)  an optional part that is not installed

Each message is one sentence: what was given, what is allowed, what to do. Each class is also the ordinary
Python error, so `except ValueError` works without importing anything from here.
"""

from __future__ import annotations


class DemitasseError(Exception):
    """The root of the tree: catch this to catch all of them."""


def reason(problem: Exception) -> str:
    """The first line of what another library raised, short enough to stand inside a sentence of ours."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:200]


class CutError(DemitasseError, ValueError):
    """A cut that cannot be read, or that is deeper or wider than the encoder."""


class BackboneError(DemitasseError, ValueError):
    """A model that cannot be cut, with the reason."""


class FolderError(DemitasseError, ValueError):
    """A model folder that cannot be read or written."""


class DataError(DemitasseError, ValueError):
    """Texts, prompts or sentences that cannot be used."""


class TrainingError(DemitasseError, RuntimeError):
    """Training that went wrong, with the step and the rows."""


class TrainingStopped(DemitasseError, RuntimeError):  # noqa: N818 - not an error: somebody asked for it
    """Training that was asked to stop, and saved where it was."""


class DeviceError(DemitasseError, ValueError):
    """A device or number format that this machine does not offer."""


class MissingExtra(DemitasseError, ImportError):  # noqa: N818 - it names what is missing, as the cure does
    """An optional part that is not installed; the message is the line to type."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(f"{feature} needs {package}; pip install 'demitasse[{extra}]'")
