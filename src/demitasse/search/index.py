"""`Index`: texts in a folder, found by meaning."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from demitasse.arguments import flag, instance, path, several, text, whole
from demitasse.cut import Cut
from demitasse.encoding.checked_encoder import checked_encoder
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.vectors import Vectors, unit_length
from demitasse.errors import DataError, FolderError, shown
from demitasse.host.progress import progress_bar
from demitasse.search.building import Building, check_target
from demitasse.search.catalog import Catalog, Document
from demitasse.search.compacting import compact, measure
from demitasse.search.description import Description
from demitasse.search.documents import new_documents, pieces, wanted_ids
from demitasse.search.facts import facts
from demitasse.search.filters import Where
from demitasse.search.hits import Hit
from demitasse.search.rebuilding import rebuild
from demitasse.search.scan import Nearest, Scan
from demitasse.search.searching import find
from demitasse.search.snapshot import Snapshot
from demitasse.search.verifying import faults
from demitasse.search.writer import add_piece, only_writer, sweep_vectors

_LARGEST_COSINE = 1.01
_TRIES = 20  # to search an index that others change meanwhile


class Index:
    """Texts with their vectors in a folder, to be searched by meaning.

    Made by `Index.build` and `Index.open`. Many processes and threads may search it while one changes it; all of them
    see a change once it is complete, and killing a process at any moment loses nothing that was there.

    >>> index = Index.build(encoder, sentences[:3], out, ids=["a", "b", "c"])
    >>> [hit.id for hit in index.search(sentences[1], k=1)]
    ['b']
    >>> index.delete(["b"]), len(index)
    (1, 2)
    """

    def __init__(self, folder: Path, encoder: Encoder | None) -> None:
        self.folder = folder
        self._description = Description.read(folder)
        self._given = encoder
        if encoder is not None:
            self._description.check(encoder, folder)
        self._catalog = Catalog(folder)
        self._lock = threading.RLock()
        self._version: tuple[int, int] | None = None
        self._state: Snapshot | None = None
        self._refreshed()

    @classmethod
    def build(  # noqa: PLR0913 - each is named when used
        cls,
        encoder: Encoder,
        texts: Iterable[str],
        folder: str | Path,
        *,
        ids: Iterable[str] | None = None,
        metadata: Iterable[Mapping[str, Any] | None] | None = None,
        graph: bool | None = None,
        force: bool = False,
        progress: bool | None = None,
    ) -> Index:
        """Encode `texts` at the encoder's cut, and write them as an index: completely, or not at all.

        `texts` may be a generator of more texts than fit in memory. A build that was killed goes on where it stopped
        when the same call is made again. `ids` are strings, by default "0", "1", …; `metadata` is a dict of JSON values
        for each text, which `where` filters by. `graph` is as in `compact`. An index that is in `folder` already is
        replaced with `force`.
        """
        checked_encoder(encoder)
        target = path("folder", folder)
        check_target(target, force=flag("force", force))
        total = len(texts) if isinstance(texts, Sized) else None
        wanted = None if graph is None else flag("graph", graph)
        building = Building(target, encoder, wanted, progress)
        building.fill(new_documents(texts, ids, metadata), total)
        building.put()
        return cls(target, encoder)

    @classmethod
    def open(cls, folder: str | Path, encoder: Encoder | None = None) -> Index:
        """The index in `folder`.

        `encoder` encodes queries: the model that the index was made with, at any cut and in any precision. Without one,
        that model is loaded from where it was, when it is first needed.
        """
        if encoder is not None:
            checked_encoder(encoder)
        return cls(path("folder", folder), encoder)

    @property
    def cut(self) -> Cut:
        """The cut that the texts were encoded at."""
        self._refreshed()
        return self._description.cut

    @property
    def fingerprint(self) -> str:
        """Names the space of the vectors: that of the model at this cut."""
        self._refreshed()
        return self._description.space.fingerprint

    @property
    def encoder(self) -> Encoder:
        """The model that encodes queries and new texts."""
        with self._lock:
            if self._given is None:
                encoder = self._description.load(self.folder)
                self._description.check(encoder, self.folder)
                self._given = encoder
            return self._given

    def __len__(self) -> int:
        return len(self._refreshed())

    @overload
    def search(
        self,
        query: str,
        k: int = ...,
        *,
        where: Where | None = ...,
        layers: int | None = ...,
        rerank: int = ...,
        scan: Scan | None = ...,
    ) -> list[Hit]: ...

    @overload
    def search(
        self,
        query: list[str] | tuple[str, ...],
        k: int = ...,
        *,
        where: Where | None = ...,
        layers: int | None = ...,
        rerank: int = ...,
        scan: Scan | None = ...,
    ) -> list[list[Hit]]: ...

    def search(
        self,
        query: str | Sequence[str],
        k: int = 10,
        *,
        where: Where | None = None,
        layers: int | None = None,
        rerank: int = 0,
        scan: Scan | None = None,
    ) -> list[Hit] | list[list[Hit]]:
        """The `k` texts nearest to a query, best first; for a list of queries, a list of such lists.

        `where` restricts the search by metadata: `{"lang": "en", "year": {"gte": 2020}}`. `layers` is how many layers
        encode the query, by default as many as encoded the texts; fewer are faster. `rerank` is how many of the best
        texts are encoded again, with all layers and dims that the model has, to be put in that order. `scan` says how
        to go over the vectors, instead of what was measured.

        >>> index = Index.build(encoder, ["a ristretto", "a lungo"], out, metadata=[{"ml": 20}, {"ml": 60}])
        >>> [hit.text for hit in index.search("a cup", where={"ml": {"gte": 30}})]
        ['a lungo']
        """
        k, rerank = whole("k", k, least=1), whole("rerank", rerank, least=0)
        queries = [query] if isinstance(query, str) else query
        vectors = self._runner(layers).encode_query(queries, progress=False)
        hits = self.search_vectors(vectors, max(k, rerank), where=where, scan=scan)
        if rerank:
            hits = [self._reranked(one, best, k) for one, best in zip(queries, hits, strict=True)]
        return hits[0] if isinstance(query, str) else hits

    def search_vectors(
        self, vectors: npt.ArrayLike, k: int = 10, *, where: Where | None = None, scan: Scan | None = None
    ) -> list[list[Hit]]:
        """The `k` texts nearest to each of `vectors`.

        They must be of the same model, which cannot be checked here: of any cut of it, and any number of first dims.
        """
        k, queries = whole("k", k, least=1), self._queries(vectors)
        scan = Scan() if scan is None else instance("scan", scan, Scan, 'write Scan("bits", shortlist=400)')
        for _ in range(_TRIES):
            snapshot = self._refreshed()
            hits = self._hits(snapshot, find(snapshot, queries, k, where, scan))
            if hits is not None:
                return hits
        raise self._catalog.damaged("has no text for some of the vectors")

    def add(
        self,
        texts: Iterable[str],
        ids: Iterable[str] | None = None,
        metadata: Iterable[Mapping[str, Any] | None] | None = None,
        *,
        progress: bool | None = None,
    ) -> list[str]:
        """Encode `texts` and put them in; returns their ids.

        A text whose id is there already replaces that one. Up to 4096 texts become visible together; more are added in
        pieces of that many.
        """
        documents, encoder = new_documents(texts, ids, metadata), self._writing_encoder()
        added: list[str] = []
        with self._writing():
            sweep_vectors(self.folder, self._catalog)
            began = self._catalog.next_row()
            with progress_bar("indexing", len(texts) if isinstance(texts, Sized) else None, show=progress) as advance:
                for piece in pieces(documents):
                    vectors = encoder.encode_document([one.text for one in piece], progress=False)
                    added += add_piece(self.folder, self._catalog, piece, vectors, began)
                    advance(len(piece))
            snapshot = self._refreshed()
            if snapshot.sizes.outgrown_by(len(snapshot)):
                measure(self.folder, self._catalog, self.cut.dims, encoder)
        return added

    def get(self, ids: Iterable[str]) -> list[Document]:
        """The texts with these ids and their metadata, in the order of `ids`; those that are not there are left out."""
        wanted = wanted_ids(several("ids", ids, text))
        rows = self._catalog.rows_of(wanted)
        there = self._catalog.documents(list(rows.values()))
        return [there[rows[id_]] for id_ in wanted if id_ in rows and rows[id_] in there]

    def delete(self, ids: Iterable[str]) -> int:
        """Take texts out; returns how many of `ids` were there."""
        wanted = wanted_ids(ids)
        with self._writing():
            rows = self._catalog.rows_of(wanted)
            if rows:
                with self._catalog.change() as change:
                    change.remove_rows(rows.values())
        return len(rows)

    def compact(self, *, graph: bool | None = None) -> None:
        """Write the vectors again as one file without those that were deleted, and measure how to search them.

        `graph=True` also makes a graph of near neighbours (`pip install 'demitasse[ann]'`), which is faster beyond a
        million texts and takes more space; `False` removes it. By default there is one if there was one, or if there
        are a million texts and usearch is installed.
        """
        wanted = None if graph is None else flag("graph", graph)
        with self._writing():
            sweep_vectors(self.folder, self._catalog)
            compact(self.folder, self._catalog, self.cut.dims, self._sampler(), graph=wanted)

    def rebuild(self, encoder: Encoder, *, progress: bool | None = None) -> None:
        """Encode all texts again with `encoder`: another cut of the model, or another model.

        The index stays as it is, and can be searched, until the new one is complete. A rebuild that was killed goes on
        where it stopped when it is asked for again.
        """
        rebuild(self.folder, checked_encoder(encoder), progress=progress)
        with self._lock:
            self._given = encoder

    def info(self) -> dict[str, Any]:
        """What the index holds, how large it is and what was measured, as plain values."""
        snapshot = self._refreshed()
        return facts(self.folder, self._description, snapshot)

    def verify(self) -> dict[str, str]:
        """What is wrong with each file of the index, by name; nothing if it is whole.

        Everything is read: hashes of files, checksums of texts, and whether each text has its vector.
        """
        return faults(self.folder)

    def __repr__(self) -> str:
        return f"Index({str(self.folder)!r}, {len(self)} texts, {self.cut})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as where it is, with the encoder it was given."""
        return Index, (self.folder, self._given)

    def _refreshed(self) -> Snapshot:
        """The state of the index now."""
        with self._lock:
            if self._catalog.is_replaced():  # by one without gaps, or by that of another index
                self._catalog.reopen()
                self._description, self._state = Description.read(self.folder), None
                if self._given is not None:
                    self._description.check(self._given, self.folder)
            version = self._catalog.version()
            if self._state is not None and version == self._version:
                return self._state
            previous, dims = self._state, self._description.cut.dims
            self._state = self._catalog.in_one_state(lambda: Snapshot(self.folder, self._catalog, dims, previous))
            self._version = version
            return self._state

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Be the only writer, of what is in the folder now: another process may have replaced the catalog."""
        with only_writer(self.folder):
            self._refreshed()
            yield

    def _writing_encoder(self) -> Encoder:
        encoder = self.encoder
        if not self.cut.fits(encoder.full):
            raise FolderError(
                f"{self.folder} holds texts encoded at {self.cut}, and this encoder gives {encoder.full}; to add texts "
                "to it, open it with an encoder that has as many layers and dims"
            )
        return encoder.cut(self.cut)

    def _sampler(self) -> Encoder | None:
        """The encoder, if there is one and it gives vectors like those of the texts."""
        with self._lock:
            return self._given.cut(self.cut) if self._given is not None and self.cut.fits(self._given.full) else None

    def _runner(self, layers: int | None) -> Encoder:
        """The encoder of queries."""
        full = self.encoder.full
        depth = min(full.layers, self.cut.layers) if layers is None else layers
        return self.encoder.cut(layers=depth, dims=min(full.dims, self.cut.dims))

    def _reranked(self, query: str, hits: list[Hit], k: int) -> list[Hit]:
        encoder = self.encoder
        documents = encoder.encode_document([hit.text for hit in hits], progress=False)
        (vector,) = encoder.encode_query([query], progress=False)
        scores = (documents @ vector).tolist()
        again = [Hit(hit.id, score, hit.text, hit.metadata) for hit, score in zip(hits, scores, strict=True)]
        return sorted(again, key=lambda hit: -hit.score)[:k]

    def _queries(self, vectors: npt.ArrayLike) -> Vectors:
        try:
            with np.errstate(over="ignore"):  # too large for 32 bits is infinite
                queries = np.asarray(vectors, np.float32)
        except (TypeError, ValueError, OverflowError, RuntimeError):  # such as a tensor on a GPU
            raise DataError(f"vectors must be an array of numbers, not {shown(vectors)}") from None
        queries = queries[None] if queries.ndim == 1 else queries
        if queries.ndim != 2 or not 1 <= queries.shape[1] <= self.cut.dims:
            raise DataError(
                f"vectors have the shape {queries.shape}; give one row per query, of at most {self.cut.dims} dims"
            )
        if not np.isfinite(queries).all():
            raise DataError("vectors have nan or inf; give vectors of finite numbers")
        return unit_length(queries)

    def _hits(self, snapshot: Snapshot, found: Sequence[Nearest]) -> list[list[Hit]] | None:
        """The hits with their texts; `None` if another process has taken one of them out meanwhile."""
        if any(not (np.abs(one.scores) < _LARGEST_COSINE).all() for one in found):  # NaN, too
            raise self._catalog.damaged("lists vectors whose lengths are wrong")
        rows = [snapshot.rows_at(one.positions) for one in found]
        documents = self._catalog.documents({row for of_query in rows for row in of_query})
        if len(documents) < len({row for of_query in rows for row in of_query}):
            return None
        return [
            [
                Hit(document.id, float(score), document.text, document.metadata)
                for document, score in zip((documents[row] for row in of_query), one.scores, strict=True)
            ]
            for of_query, one in zip(rows, found, strict=True)
        ]
