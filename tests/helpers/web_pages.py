"""A web folder served on loopback and opened in Chromium, as tests and benchmarks do it."""

from __future__ import annotations

import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
FLAGS = ["--no-sandbox"] if getattr(os, "geteuid", lambda: 1)() == 0 else []  # root has no sandbox
PATIENCE = 600_000  # milliseconds: a busy machine is not a failure


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of `folder`, served as any host of static files would."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def installed_chromium() -> str | None:
    """The program of a Chromium or Chrome that is installed here."""
    return next(filter(None, [*map(shutil.which, NAMES), MAC if Path(MAC).exists() else None]), None)


@contextmanager
def launched(chromium: str) -> Iterator[Browser]:
    """That browser, without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS, timeout=PATIENCE)
        yield browser
        browser.close()
