"""A progress bar on stderr for work that takes long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext

from demitasse.arguments import flag

Advance = Callable[[int], None]  # is called with the number of steps just done
ProgressOption = bool | Advance | None  # whether to show a bar (`None`: on a terminal), or what to call instead of one
PATIENCE = 1.5  # seconds before the bar appears


@contextmanager
def progress_bar(label: str, total: int | None, *, show: bool | None = None) -> Iterator[Callable[..., None]]:
    """A function to call with the number of steps just done, and optionally a note to show beside the label.

    `show=None` shows a bar only if stderr is a terminal, and only once the work has taken a while.
    """
    show = sys.stderr.isatty() if show is None else flag("progress", show)
    if not show:
        yield lambda steps, note="": None
        return
    # Imported here, since most calls are too short to show a bar.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=console.is_terminal)
    task = bar.add_task(label, total=total)
    started = time.monotonic()
    running = False

    def advance(steps: int, note: str = "") -> None:
        nonlocal running
        bar.update(task, advance=steps, description=f"{label} {note}".rstrip())
        if not running and time.monotonic() - started > PATIENCE:
            bar.start()
            running = True

    try:
        yield advance
    finally:
        if running:
            bar.stop()


def progress_over(label: str, things: Iterable[object], *, show: ProgressOption) -> AbstractContextManager[Advance]:
    """`progress_bar` for each of `things`; a function that is given as `show` is called instead."""
    if callable(show):
        return nullcontext(show)
    return progress_bar(label, len(things) if isinstance(things, Sized) else None, show=show)
