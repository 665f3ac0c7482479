from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from demitasse import Cut, FolderError
from demitasse.encoding.manifest import MANIFEST, Manifest
from demitasse.host.bundled import BUILT_IN


@pytest.fixture
def built_in() -> Manifest:
    manifest = Manifest.read(BUILT_IN)
    assert manifest is not None
    return manifest


def test_a_folder_without_a_manifest_is_not_ours(tmp_path: Path) -> None:
    assert Manifest.read(tmp_path) is None


def test_what_is_written_is_read(built_in: Manifest, tmp_path: Path) -> None:
    copy = Manifest(tmp_path, built_in.fields)
    copy.write()
    assert (tmp_path / MANIFEST).read_bytes() == (BUILT_IN / MANIFEST).read_bytes()
    again = Manifest.read(tmp_path)
    assert again is not None
    assert again.fields == built_in.fields


def test_a_narrowed_manifest_keeps_what_still_holds(built_in: Manifest, tmp_path: Path) -> None:
    narrow = built_in.narrowed(Cut(2, 64), tmp_path, 100)
    assert narrow.folder == tmp_path
    assert narrow.full == Cut(2, 64)
    assert narrow.exits == [depth for depth in built_in.exits if depth <= 2]
    assert all(Cut.parse(entry["cut"]).fits(Cut(2, 64)) for entry in narrow.fields["cuts"])
    assert narrow.fields["against_torch"]["mean_cosine"].keys() == {"0", "1", "2"}
    assert list(narrow.fields) == list(built_in.fields)  # in the same order, so that files compare line by line
    assert built_in.full == Cut(6, 384)


def test_unknown_fields_are_kept(built_in: Manifest, tmp_path: Path) -> None:
    fields = {**built_in.fields, "from_a_later_release": 1}
    assert Manifest(BUILT_IN, fields).narrowed(Cut(1, 8), tmp_path, 100).fields["from_a_later_release"] == 1


@pytest.mark.parametrize(
    ("field", "read"),
    [
        ("full", lambda manifest: manifest.full),
        ("exits", lambda manifest: manifest.exits),
        ("head", lambda manifest: manifest.head),
        ("precision", lambda manifest: manifest.precision),
        ("pooling.modes", lambda manifest: manifest.pooling),
        ("reader.max_tokens", lambda manifest: manifest.reading),
        ("files", lambda manifest: manifest.files),
    ],
)
def test_a_missing_field_is_named(field: str, read: Callable[[Manifest], object], tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(
        json.dumps({"schema": 1, "full": "3x8", "pooling": {}, "reader": {}} | {field: None})
    )
    manifest = Manifest.read(tmp_path)
    assert manifest is not None
    with pytest.raises(FolderError, match=f"{MANIFEST} has no field '{field}'; .*again"):
        read(manifest)


def test_a_reader_of_another_release_is_refused(built_in: Manifest) -> None:
    changed = Manifest(BUILT_IN, {**built_in.fields, "reader": {"max_tokens": 8, "stemming": True}})
    with pytest.raises(FolderError, match="stemming"):
        _ = changed.reading


def test_what_every_encode_asks_for_is_read_once(built_in: Manifest) -> None:
    for name in ("full", "exits", "record", "precision", "architecture"):
        assert getattr(built_in, name) is getattr(built_in, name)
