"""Building an index: beside its folder, in pieces, so that a build that was killed goes on where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from demitasse.encoding.encoder import Encoder
from demitasse.errors import DataError, FolderError
from demitasse.host.atomic import put_folder
from demitasse.host.full_disk import naming_full_disk
from demitasse.host.leftovers import remove, sweep
from demitasse.host.progress import progress_bar
from demitasse.host.replacing import check_replaceable
from demitasse.search.catalog import CATALOG, JOURNAL, Catalog
from demitasse.search.compacting import compact
from demitasse.search.description import DESCRIPTION, Description
from demitasse.search.documents import NewDocument, pieces
from demitasse.search.graph import SUFFIX_OF_GRAPHS
from demitasse.search.snapshot import VECTORS
from demitasse.search.writer import LOCK, SUFFIX, add_piece, only_writer, sweep_vectors

REPLACES = "replaces"  # the setting of the catalog that names the index whose place it takes
BEGUN = ".building"  # added to the name of the folder while it is not finished


def own_files(folder: Path) -> Collection[str]:
    """The files of `folder` that belong to an index; none if it is not one."""
    if not (folder / DESCRIPTION).is_file():
        return set()
    paths = [path for suffix in (SUFFIX, SUFFIX_OF_GRAPHS) for path in (folder / VECTORS).glob(f"*{suffix}")]
    return {DESCRIPTION, CATALOG, JOURNAL, LOCK, VECTORS, *(f"{VECTORS}/{path.name}" for path in paths)}


def check_target(target: Path, *, force: bool) -> None:
    """Refuse a folder that must not become an index."""
    if (target / DESCRIPTION).is_file() and not force:
        raise FolderError(
            f"{target} holds an index already; add to it (index.add, demitasse index add), or use force (--force) to "
            "replace it"
        )
    check_replaceable(target, own_files, force=force)


@dataclass(frozen=True)
class Building:
    """An index that is being made for the folder `target`."""

    target: Path
    encoder: Encoder
    graph: bool | None = None
    progress: bool | None = None

    @property
    def real(self) -> Path:
        """The folder that will be the index, not a link to it."""
        return Path(os.path.realpath(self.target))

    @property
    def begun(self) -> Path:
        """Where it is until it is complete."""
        return self.real.with_name(self.real.name + BEGUN)

    def fill(self, documents: Iterator[NewDocument], total: int | None) -> None:
        """Encode and write all documents; those that were written before this process began are not encoded again."""
        with naming_full_disk(self.target):
            _remove_replaced(self.begun, self.real)
            self.begun.mkdir(parents=True, exist_ok=True)
            with only_writer(self.begun):
                catalog = _catalog(self.begun, Description.of(self.encoder))
                try:
                    self._fill(catalog, documents, total)
                finally:
                    catalog.close()

    def put(self) -> None:
        """Let it take its place; an index that was there is gone then."""
        with naming_full_disk(self.target):
            put_folder(self.begun, self.real, own_files)
        remove(self.begun)  # what was replaced, if anything was

    def _fill(self, catalog: Catalog, documents: Iterator[NewDocument], total: int | None) -> None:
        sweep_vectors(self.begun, catalog)
        with progress_bar("indexing", total, show=self.progress) as advance:
            advance(_skip(catalog, documents, self.begun))
            for piece in pieces(documents):
                vectors = self.encoder.encode_document([one.text for one in piece], progress=False)
                add_piece(self.begun, catalog, piece, vectors, began=1)
                advance(len(piece))
        if not catalog.count():
            raise DataError("there are no texts to index; give at least one")
        compact(self.begun, catalog, self.encoder.full.dims, self.encoder, graph=self.graph)
        with catalog.change() as change:
            change.set(REPLACES, _made(self.real))


def _made(folder: Path) -> str | None:
    """The name of its own of the index in `folder`, if there is one."""
    return Description.read(folder).made if (folder / DESCRIPTION).is_file() else None


def _remove_replaced(begun: Path, target: Path) -> None:
    """Remove what `target` has replaced, if the process that did so was killed before it could."""
    replaced = _made(begun)
    if replaced is None or _made(target) is None:
        return
    catalog = Catalog(target)
    try:
        if catalog.setting(REPLACES) == replaced:
            remove(begun)
    finally:
        catalog.close()


def _catalog(begun: Path, description: Description) -> Catalog:
    """The catalog of a build that was begun, or of a new one."""
    sweep(begun)
    if (begun / DESCRIPTION).is_file():
        if Description.read(begun) != description:
            raise FolderError(
                f"{begun} holds an unfinished index of another model or cut; remove that folder to begin again"
            )
        return Catalog(begun)
    (begun / VECTORS).mkdir(exist_ok=True)
    for name in (CATALOG, JOURNAL):
        (begun / name).unlink(missing_ok=True)
    catalog = Catalog.create(begun)
    description.write(begun)  # last: from now on there is something to go on with
    return catalog


def _skip(catalog: Catalog, documents: Iterator[NewDocument], begun: Path) -> int:
    """Take as many documents as are there already, and see that they are the same."""
    count = 0
    for number, (_, there) in enumerate(catalog.each_document()):
        given = next(documents, None)
        metadata = json.dumps(there.metadata) if there.metadata else None
        same = given is not None and (given.text, given.metadata) == (there.text, metadata)
        if given is None or not same or given.id not in (None, there.id):
            raise DataError(
                f"text {number} is not the one that the unfinished index in {begun} has; give the same texts to go on "
                "with it, or remove that folder to begin again"
            )
        count += 1
    return count
