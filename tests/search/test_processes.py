"""Two processes and one index: many readers, one writer, and nothing lost when one is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from demitasse import Encoder, FolderError, Index, load
from demitasse.host.bundled import corpus
from demitasse.search.writer import only_writer

TEXTS = corpus()[:40]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load().cut(0, 64)


@pytest.fixture
def index(encoder: Encoder, tmp_path: Path) -> Index:
    return Index.build(encoder, TEXTS, tmp_path / "index")


def process(code: str, folder: Path) -> subprocess.Popen[str]:
    """A process that runs code, and says what it prints."""
    begin = "import sys\nfrom demitasse import Index, load\nfolder = sys.argv[1]\nencoder = load().cut(0, 64)\n"
    command = [sys.executable, "-c", begin + textwrap.dedent(code), str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def said(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().strip()


def test_a_second_writer_is_told_in_one_sentence(index: Index, encoder: Encoder) -> None:
    holding = process(
        """
        from pathlib import Path
        from demitasse.search.writer import only_writer
        with only_writer(Path(folder)):
            print("held", flush=True)
            input()
        """,
        index.folder,
    )
    assert said(holding) == "held"
    sentence = f"{index.folder} is being changed by another process; try again when that has ended"
    for change in (lambda: index.add(["one"]), lambda: index.delete(["1"]), index.compact):
        with pytest.raises(FolderError) as refused:
            change()
        assert str(refused.value) == sentence
    assert len(index.search(TEXTS[3])) == 10  # readers are not kept waiting
    os.kill(holding.pid, signal.SIGKILL)
    holding.wait()
    assert index.delete(["1"]) == 1  # the lock went with the process
    holding.communicate()


def test_in_one_process_there_is_one_writer_too(index: Index, encoder: Encoder) -> None:
    with only_writer(index.folder), pytest.raises(FolderError, match="is being changed by another process"):
        Index.open(index.folder, encoder).delete(["1"])


def test_a_reader_sees_what_another_process_added(index: Index) -> None:
    adding = process(
        """
        index = Index.open(folder, encoder)
        print(index.add(["The moons of Jupiter are seen through a small telescope."], ids=["moons"]), flush=True)
        input()
        print(index.delete(["moons"]), flush=True)
        index.compact()
        print("compact", flush=True)
        """,
        index.folder,
    )
    assert said(adding) == "['moons']"
    assert index.search("the moons of Jupiter", k=1)[0].id == "moons"
    adding.stdin.write("\n")  # type: ignore[union-attr]
    adding.stdin.flush()  # type: ignore[union-attr]
    assert said(adding) == "1"
    assert said(adding) == "compact"
    assert index.search("the moons of Jupiter", k=1)[0].id != "moons"
    assert len(index) == len(TEXTS)
    adding.communicate()


@pytest.mark.posix
def test_a_process_killed_while_it_adds_leaves_whole_additions(index: Index, encoder: Encoder) -> None:
    adding = process(
        """
        index = Index.open(folder, encoder)
        print("ready", flush=True)
        for number in range(10_000):
            index.add([f"text {number}, first", f"text {number}, second"], ids=[f"{number}a", f"{number}b"])
            if number == 3:
                print("three", flush=True)
        """,
        index.folder,
    )
    assert said(adding) == "ready"
    assert said(adding) == "three"
    os.kill(adding.pid, signal.SIGKILL)
    adding.communicate()
    again = Index.open(index.folder, encoder)
    assert (len(again) - len(TEXTS)) % 2 == 0
    assert len(again) >= len(TEXTS) + 8
    again.add(["one more"])
    assert again.verify() == {}


@pytest.mark.posix
def test_a_fork_searches_with_a_connection_of_its_own(index: Index) -> None:
    index.search(TEXTS[0])
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        found = index.search_vectors([[1.0] * 64], k=1)[0][0].id
        os.write(writing, found.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 99).decode() == index.search_vectors([[1.0] * 64], k=1)[0][0].id


@pytest.mark.posix
def test_a_folder_that_cannot_be_written_can_be_searched(encoder: Encoder) -> None:
    with tempfile.TemporaryDirectory() as outside:  # not below a folder that only this user may enter
        folder = Index.build(encoder, TEXTS, Path(outside) / "index").folder
        for path in (*folder.rglob("*"), folder, Path(outside)):
            path.chmod(0o555 if path.is_dir() else 0o444)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover
            if os.geteuid() == 0:  # who may write anywhere
                os.setuid(65534)
            index = Index.open(folder, encoder)
            said = [str(len(index.search_vectors([[1.0] * 64])[0]))]
            try:
                index.delete(["1"])
            except FolderError as refused:
                said.append(str(refused))
            os.write(writing, "\n".join(said).encode())
            os._exit(0)
        os.waitpid(child, 0)
        found, refused = os.read(reading, 999).decode().split("\n")
        Path(outside).chmod(0o700)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o700)
    assert found == "10"
    assert re.fullmatch(rf"cannot write {folder} \(.*\); choose an index you may write to", refused)
