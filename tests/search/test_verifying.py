"""Damage of every kind is found by `verify`, and none where there is none."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from demitasse import Encoder, FolderError, Index, load
from demitasse.host.bundled import corpus
from demitasse.search.segments import Layout
from demitasse.search.verifying import faults

TEXTS = corpus()[:40]
DIMS = 96


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load().cut(0, DIMS)


@pytest.fixture
def folder(encoder: Encoder, tmp_path: Path) -> Path:
    index = Index.build(encoder, TEXTS, tmp_path / "index", metadata=[{"n": number} for number in range(40)])
    index.add(TEXTS[:30], ids=[f"again {number}" for number in range(30)])
    index.delete(["3", "again 5"])
    assert len([*(index.folder / "vectors").iterdir()]) == 2
    return index.folder


def sql(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "texts.sqlite")) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def vectors(folder: Path, number: int = 0) -> Path:
    """A file of vectors, in the order of the catalog."""
    with closing(sqlite3.connect(folder / "texts.sqlite")) as connection:
        names = [name for (name,) in connection.execute("SELECT file FROM segments ORDER BY number")]
    return folder / "vectors" / names[number]


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x55
    path.write_bytes(content)


def with_fitting_hash(folder: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    """Change arrays of the first file, and make the catalog believe them."""
    path = vectors(folder)
    content = bytearray(path.read_bytes())
    layout = Layout(40, DIMS)
    arrays = {
        name: np.frombuffer(content, kind, int(np.prod(shape)), offset).reshape(shape)
        for name, (kind, shape, offset) in layout.arrays.items()
        if name != "end"
    }
    change(arrays)
    path.write_bytes(content)
    sql(folder, f"UPDATE segments SET sha256 = '{hashlib.sha256(content).hexdigest()}' WHERE file = '{path.name}'")


def set_to(name: str, value: float) -> Callable[[dict[str, np.ndarray]], None]:
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays[name].reshape(-1)[3] = value

    return change


DAMAGE: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "no description": (lambda f: (f / "index.json").unlink(), "index.json", "is not an index"),
    "a description that is not JSON": (lambda f: (f / "index.json").write_text("{"), "index.json", "as JSON"),
    "a description without a cut": (
        lambda f: (f / "index.json").write_text(
            json.dumps({**json.loads((f / "index.json").read_text()), "cut": "much"})
        ),
        "index.json",
        "cut must be",
    ),
    "no catalog": (lambda f: (f / "texts.sqlite").unlink(), "texts.sqlite", "is missing"),
    "a catalog that is something else": (
        lambda f: (f / "texts.sqlite").write_bytes(b"no database" * 99),
        "texts.sqlite",
        "not a database",
    ),
    "a page of the catalog": (lambda f: damage_pages(f / "texts.sqlite"), "texts.sqlite", "damaged|malformed|another"),
    "a catalog of another schema": (lambda f: sql(f, "PRAGMA user_version = 9"), "texts.sqlite", "schema"),
    "a changed text": (lambda f: sql(f, "UPDATE documents SET text = 'x' WHERE row = 9"), "texts.sqlite", "row 9"),
    "changed metadata": (
        lambda f: sql(f, "UPDATE documents SET metadata = '{}' WHERE row = 9"),
        "texts.sqlite",
        "another text in row 9",
    ),
    "a missing table": (lambda f: sql(f, "DROP TABLE deleted"), "texts.sqlite", "no such table"),
    "a text without a vector": (
        lambda f: sql(f, "INSERT INTO documents VALUES (999, 'z', '', NULL, 2787587220)"),
        "texts.sqlite",
        "1 texts without a vector, such as row 999",
    ),
    "a vector without a text": (
        lambda f: sql(f, "DELETE FROM documents WHERE row = 12"),
        "texts.sqlite",
        "no text for 1 vectors, such as that of row 12",
    ),
    "a deleted text that is there": (
        lambda f: sql(f, "INSERT INTO deleted VALUES (12)"),
        "texts.sqlite",
        "row 12 among the texts and among what was deleted",
    ),
    "a deleted text that never was": (
        lambda f: sql(f, "INSERT INTO deleted VALUES (999)"),
        "texts.sqlite",
        "says that row 999 was deleted",
    ),
    "sizes that are none": (
        lambda f: sql(f, "INSERT OR REPLACE INTO settings VALUES ('sizes', '7')"),
        "texts.sqlite",
        "must be an object",
    ),
    "a missing file of vectors": (lambda f: vectors(f).unlink(), "vectors/", "cannot be read"),
    "a file of vectors of an impossible name": (
        lambda f: sql(f, "UPDATE segments SET file = 'a' || char(0) || number"),
        "vectors/",
        "null byte",
    ),
    "half a file of vectors": (
        lambda f: vectors(f).write_bytes(vectors(f).read_bytes()[:999]),
        "vectors/",
        "999 bytes and should have",
    ),
    "a flipped bit of a vector": (lambda f: flip(vectors(f), -9), "vectors/", "sha256"),
    "a flipped bit of a row": (lambda f: flip(vectors(f), 3), "vectors/", "sha256"),
    "two files exchanged": (
        lambda f: [a := vectors(f, 0), b := vectors(f, 1), a.rename(f / "x"), b.rename(a), (f / "x").rename(b)],
        "vectors/",
        "bytes and should have",
    ),
    "a file of vectors that nobody lists": (
        lambda f: (f / "vectors" / "stray.i8").write_bytes(b"x"),
        "vectors/stray.i8",
        "does not belong to the index",
    ),
    "a file listed twice": (
        lambda f: sql(f, "UPDATE segments SET number = number + 100 WHERE number = (SELECT min(number) FROM segments)"),
        "texts.sqlite",
        "rows do not ascend",
    ),
    "wrong scales, with a hash that fits": (
        lambda f: with_fitting_hash(f, set_to("scales", 9.0)),
        "vectors/",
        "scales that do not fit its vectors",
    ),
    "wrong scales of the first dims": (
        lambda f: with_fitting_hash(f, set_to("first_scales", 9.0)),
        "vectors/",
        "scales that do not fit the first dims",
    ),
    "wrong bits, with a hash that fits": (
        lambda f: with_fitting_hash(f, set_to("bits", 9)),
        "vectors/",
        "bits that do not fit",
    ),
    "wrong rows, with a hash that fits": (
        lambda f: with_fitting_hash(f, set_to("rows", 77)),
        "texts.sqlite",
        "rows do not ascend",
    ),
}


def damage_pages(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for page in range(4096, len(content), 4096):
        content[page : page + 64] = bytes(64)
    path.write_bytes(content)


def test_an_index_that_is_whole_has_no_faults(folder: Path, encoder: Encoder) -> None:
    index = Index.open(folder, encoder)
    assert index.verify() == {}
    index.compact()
    assert index.verify() == {}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found(kind: str, folder: Path) -> None:
    damage, name, said = DAMAGE[kind]
    damage(folder)
    found = faults(folder)
    assert len(found) >= 1
    wrong = {file: what for file, what in found.items() if file.startswith(name)}
    assert wrong, found
    assert re.search(said, " ".join(wrong.values())), found


@pytest.mark.parametrize("kind", ["a changed text", "a vector without a text", "half a file of vectors"])
def test_a_search_that_meets_damage_says_so_in_one_sentence(kind: str, folder: Path, encoder: Encoder) -> None:
    DAMAGE[kind][0](folder)
    with pytest.raises(FolderError) as refused:
        Index.open(folder, encoder).search("coffee", k=99)
    assert "; " in str(refused.value)
    assert "\n" not in str(refused.value)
