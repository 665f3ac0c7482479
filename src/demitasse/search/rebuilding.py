"""Encoding the texts of an index again, with another cut or another model."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from demitasse.encoding.encoder import Encoder
from demitasse.search.building import Building
from demitasse.search.catalog import Catalog
from demitasse.search.documents import NewDocument
from demitasse.search.writer import only_writer


def rebuild(folder: Path, encoder: Encoder, *, progress: bool | None = None) -> None:
    """Replace the index in `folder` by one of the same texts, ids and metadata, encoded by `encoder`.

    Until it is complete the old one stays, and can be searched. One that was killed goes on where it stopped.
    """
    building = Building(folder, encoder, progress=progress)
    with only_writer(folder):
        catalog = Catalog(folder)
        try:
            building.fill(_documents(catalog), catalog.count())
        finally:
            catalog.close()
        if os.name != "nt":
            building.put()
    if os.name == "nt":  # where a folder cannot be replaced while the lock in it is held
        building.put()


def _documents(catalog: Catalog) -> Iterator[NewDocument]:
    for _, one in catalog.each_document():
        yield NewDocument(one.text, one.id, json.dumps(one.metadata) if one.metadata else None)
