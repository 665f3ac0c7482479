"""Builds that are interrupted go on, and nothing but a complete index ever takes its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from demitasse import DataError, Encoder, FolderError, Index, load
from demitasse.host.bundled import corpus
from demitasse.search import building

TEXTS = corpus()[:50]


class Stopped(Exception):  # noqa: N818 - it is what a user does
    """What interrupts a build."""


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load().cut(0, 64)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demitasse.search.documents.pieces.__defaults__", (8,))


def until(number: int) -> Iterator[str]:
    yield from TEXTS[:number]
    raise Stopped


def stop_after(encoder: Encoder, folder: Path, number: int) -> None:
    with pytest.raises(Stopped):
        Index.build(encoder, until(number), folder)


def counting(monkeypatch: pytest.MonkeyPatch, encoder: Encoder) -> list[int]:
    encoded: list[int] = []
    encode = type(encoder).encode_document

    def count(self: Encoder, texts: list[str], **options: object) -> object:
        encoded.append(len(texts))
        return encode(self, texts, **options)

    monkeypatch.setattr(type(encoder), "encode_document", count)
    return encoded


def test_the_same_call_goes_on_where_it_stopped(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Index.build(encoder, TEXTS, tmp_path / "whole")
    stop_after(encoder, tmp_path / "index", 21)
    assert not (tmp_path / "index").exists()
    assert (tmp_path / "index.building").is_dir()
    encoded = counting(monkeypatch, encoder)
    index = Index.build(encoder, TEXTS, tmp_path / "index")
    assert sum(encoded) == len(TEXTS) - 16  # two pieces of eight were there
    assert not (tmp_path / "index.building").exists()
    for query in TEXTS[::9]:
        assert index.search(query, k=50) == whole.search(query, k=50)
    assert index.verify() == {}


def test_other_texts_do_not_go_on_with_it(encoder: Encoder, tmp_path: Path) -> None:
    stop_after(encoder, tmp_path / "index", 21)
    for texts in (TEXTS[1:], TEXTS[:10]):
        with pytest.raises(DataError, match=r"text \d+ is not the one that the unfinished index .* has"):
            Index.build(encoder, texts, tmp_path / "index")
    with pytest.raises(DataError, match="text 0 is not the one"):
        Index.build(encoder, TEXTS, tmp_path / "index", metadata=[{"new": 1}] * 50)
    assert len(Index.build(encoder, TEXTS, tmp_path / "index")) == 50


def test_another_cut_does_not_go_on_with_it(encoder: Encoder, tmp_path: Path) -> None:
    stop_after(encoder, tmp_path / "index", 21)
    with pytest.raises(FolderError, match="unfinished index of another model or cut; remove that folder"):
        Index.build(encoder.cut(dims=32), TEXTS, tmp_path / "index")


def test_a_build_killed_before_it_had_a_description_begins_again(encoder: Encoder, tmp_path: Path) -> None:
    (tmp_path / "index.building").mkdir()
    (tmp_path / "index.building" / "texts.sqlite").write_bytes(b"half a file")
    assert len(Index.build(encoder, TEXTS, tmp_path / "index")) == 50


def test_an_interrupted_rebuild_leaves_the_old_index_and_goes_on(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index.build(encoder, TEXTS, tmp_path / "index")
    narrow = encoder.cut(dims=32)
    encode, calls = type(encoder).encode_document, [0]

    def failing(self: Encoder, texts: list[str], **options: object) -> object:
        calls[0] += 1
        if calls[0] == 4:
            raise Stopped
        return encode(self, texts, **options)

    with monkeypatch.context() as patched:
        patched.setattr(type(encoder), "encode_document", failing)
        with pytest.raises(Stopped):
            index.rebuild(narrow)
    assert index.cut.dims == 64
    assert len(index.search(TEXTS[0])) == 10
    encoded = counting(monkeypatch, encoder)
    index.rebuild(narrow)
    assert sum(encoded) == 50 - 24
    assert index.cut.dims == 32
    assert index.verify() == {}


def test_no_texts_are_no_index(encoder: Encoder, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no texts to index"):
        Index.build(encoder, [], tmp_path / "index")
    assert not (tmp_path / "index").exists()


def test_two_builds_of_one_folder_do_not_mix(encoder: Encoder, tmp_path: Path) -> None:
    said: list[str] = []

    def texts() -> Iterator[str]:
        yield from TEXTS[:20]
        with pytest.raises(FolderError, match="is being changed by another process") as refused:
            Index.build(encoder, TEXTS, tmp_path / "index")
        said.append(str(refused.value))
        yield from TEXTS[20:]

    assert len(Index.build(encoder, texts(), tmp_path / "index")) == 50
    assert said


def test_a_link_stays_a_link(encoder: Encoder, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    Index.build(encoder, TEXTS, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert len(Index.open(tmp_path / "real")) == 50


def test_its_files_are_known(encoder: Encoder, tmp_path: Path) -> None:
    folder = Index.build(encoder, TEXTS, tmp_path / "index").folder
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert names <= {*building.own_files(folder)}
    assert building.own_files(tmp_path) == set()
