"""A Postgres server of the tests' own, in a temporary folder, reached through a socket there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest


def programs() -> Path:
    """The folder of initdb and pg_ctl of the newest Postgres."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: int(folder.parent.name))
    folders = [*debian, *(Path(found).resolve().parent for found in [shutil.which("initdb")] if found)]
    if not folders:
        pytest.fail(
            "there is no Postgres here; run tests/postgres.sh as root on Debian, or install postgresql and pgvector"
        )
    return folders[-1]


@contextmanager
def server() -> Iterator[str]:
    """The connection string of a server that runs meanwhile, with a database in which pgvector can be created."""
    found = programs()
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # a socket's path is short, and others may go there
    if os.getuid() == 0:  # Postgres refuses to run as root
        shutil.chown(folder, "postgres", "postgres")
    data, log = folder / "data", folder / "log"
    try:
        _run([found / "initdb", "--no-sync", "--auth", "trust", "--username", "tester", "--pgdata", data], folder)
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        _run([found / "pg_ctl", "--wait", "--pgdata", data, "--log", log, "--options", options, "start"], folder)
        try:
            yield f"host={folder} user=tester dbname=postgres"
        finally:
            _run([found / "pg_ctl", "--wait", "--pgdata", data, "--mode", "immediate", "stop"], folder)
    finally:
        shutil.rmtree(folder)


def _run(command: Sequence[str | Path], folder: Path) -> None:
    as_postgres = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    with (folder.with_suffix(".out")).open("w") as out:  # a pipe would stay open as long as the server runs
        done = subprocess.run([*as_postgres, *map(str, command)], cwd=folder, stdout=out, stderr=out, check=False)
    said = folder.with_suffix(".out").read_text()
    folder.with_suffix(".out").unlink()
    assert done.returncode == 0, said
