"""Servers that several tests share; each is a process of its own, started when it is first needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from servers import RunningServer, running

import demitasse as dt


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    """The built-in model, with the usual limits."""
    with running("--name", "demitasse", "--name", "text-embedding-3-small") as started:
        yield started


@pytest.fixture(scope="session")
def model() -> dt.Encoder:
    """What the server serves."""
    return dt.load()
