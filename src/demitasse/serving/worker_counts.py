"""What every worker has counted, in a folder that all of them read: any of them can answer for all.

Each worker writes its own file once a second. When one dies, what it had counted is added to the file of those that are
gone, so that counters never go back.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demitasse.serving.metrics import KINDS, Snapshot, merged

_STALE = 5.0  # seconds after which what a file says about now no longer holds
_GONE = "gone.json"


@dataclass(frozen=True)
class WorkerCounts:
    """The files of all workers; without a folder there is one worker alone, and nothing is written."""

    folder: Path | None = None
    clock: Callable[[], float] = time.time

    def publish(self, snapshot: Snapshot) -> None:
        """Write what this process has counted."""
        if self.folder is not None:
            self._write(f"{os.getpid()}.json", {"time": self.clock(), "snapshot": snapshot})

    def others(self) -> list[Snapshot]:
        """What all other workers have counted."""
        found = []
        for path in sorted(self.folder.glob("*.json")) if self.folder is not None else ():
            if path.name != f"{os.getpid()}.json":
                found.append(self._read(path))
        return found

    def retire(self, process: int) -> None:
        """Keep what a worker had counted that is gone; called by the one process that starts workers."""
        if self.folder is None:
            return
        path = self.folder / f"{process}.json"
        last, gone = _counters(self._read(path)), _counters(self._read(self.folder / _GONE))
        total = {name: [[labels, value] for labels, value in by.items()] for name, by in merged([last, gone]).items()}
        self._write(_GONE, {"time": 0, "snapshot": total})
        path.unlink(missing_ok=True)

    def _read(self, path: Path) -> Snapshot:
        with suppress(OSError, ValueError):  # retired just now, or not there yet
            plain = json.loads(path.read_bytes())
            snapshot: Snapshot = plain["snapshot"]
            return snapshot if self.clock() - plain["time"] < _STALE else _counters(snapshot)
        return {}

    def _write(self, name: str, plain: dict[str, Any]) -> None:
        assert self.folder is not None
        aside = self.folder / f"{name}.{os.getpid()}"
        with suppress(OSError):  # a full disk costs the numbers, not the service
            aside.write_text(json.dumps(plain))
            aside.replace(self.folder / name)


def _counters(snapshot: Snapshot) -> Snapshot:
    """A snapshot without what only said how things stood then."""
    return {name: entries for name, entries in snapshot.items() if name in KINDS and KINDS[name][0] != "gauge"}
