"""LangChain: `DemitasseEmbeddings`, for any of its vector stores; `DemitasseVectorStore` and `DemitasseRetriever`, over
an index of demitasse.

    from demitasse.integrations.langchain import DemitasseEmbeddings, DemitasseVectorStore

    embeddings = DemitasseEmbeddings(cut="6x128", query_layers=3)
    store = DemitasseVectorStore.from_texts(["a ristretto", "a lungo"], embeddings, folder="index")
    store.similarity_search("a small cup", k=1)

Queries run through fewer layers here than documents do.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from demitasse.arguments import path
from demitasse.cut import Cut
from demitasse.encoding.encoder import Encoder
from demitasse.errors import DataError, shown
from demitasse.extras import LANGCHAIN, need
from demitasse.integrations.encoders import Encoders
from demitasse.search.hits import Hit
from demitasse.search.index import Index

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.load.serializable import Serializable
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.vectorstores import VectorStore
    from langchain_core.vectorstores.utils import maximal_marginal_relevance
except ImportError:
    need(__name__, LANGCHAIN)
    raise

from pydantic import Field, PrivateAttr  # langchain_core brings it


class DemitasseEmbeddings(Serializable, Embeddings):
    """The vectors of a model at one cut, for LangChain; `model` is an encoder, or what `demitasse.load` takes.

    Queries and documents get the model's prompts for them. `query_layers` runs queries through fewer layers than
    documents: cheaper where it counts, in the same space. `dumpd` and `load` of langchain_core write and read it; a
    model that has another space by then is refused.

    >>> embeddings = DemitasseEmbeddings(folder, cut="3x16", query_layers=1)
    >>> len(embeddings.embed_query("a ristretto"))
    16
    """

    model: str | None = None
    cut: str | None = None
    query_layers: int | None = None
    max_seq_length: int | None = None
    space: dict[str, Any] | None = Field(default=None, repr=False)
    _encoders: Encoders = PrivateAttr()

    def __init__(
        self,
        model: Encoder | str | Path | None = None,
        *,
        cut: Cut | str | None = None,
        query_layers: int | None = None,
        max_seq_length: int | None = None,
        space: Mapping[str, Any] | None = None,
    ) -> None:
        encoders = Encoders.open(model, cut=cut, query_layers=query_layers, max_seq_length=max_seq_length, space=space)
        super().__init__(**encoders.plain())
        self._encoders = encoders

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector for each document."""
        return self._encoders.document_vectors(texts)

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query."""
        return self._encoders.query_vectors([text])[0]

    @property
    def encoders(self) -> Encoders:
        """The encoders of documents and of queries."""
        return self._encoders

    @property
    def encoder(self) -> Encoder:
        """The encoder of documents."""
        return self._encoders.documents

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether `dumpd` writes it."""
        return True


class DemitasseVectorStore(VectorStore):
    """The index of demitasse in `folder` as a vector store; the first texts that are added make it.

    Without `embedding`, the model of the index is used. `filter` of a search is the `where` of `Index.search`, such as
    `{"lang": "en"}`. Vectors of another model are refused.

    >>> texts = ["a ristretto is a short espresso", "a bicycle has two wheels"]
    >>> store = DemitasseVectorStore.from_texts(texts, DemitasseEmbeddings(cut="6x128"), folder=out)
    >>> [document.page_content for document in store.similarity_search("a small coffee", k=1)]
    ['a ristretto is a short espresso']
    """

    def __init__(self, folder: str | Path, embedding: DemitasseEmbeddings | None = None) -> None:
        if embedding is not None and not isinstance(embedding, DemitasseEmbeddings):
            raise DataError(f"embedding must be DemitasseEmbeddings, not {shown(embedding)}; its model makes the index")
        self.folder, self._embedding, self._lock = path("folder", folder), embedding, Lock()
        self._index: Index | None = None
        if embedding is None or (self.folder / "index.json").is_file():
            self._index = Index.open(self.folder, None if embedding is None else embedding.encoder)

    @classmethod
    def from_texts(  # type: ignore[override]  # an index is in a folder
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        folder: str | Path,
        **named: Any,
    ) -> DemitasseVectorStore:
        """A store of `texts` in `folder`, in which there may be an index of the same model already."""
        store = cls(folder, embedding)  # type: ignore[arg-type]  # which refuses others
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @property
    def embeddings(self) -> DemitasseEmbeddings:
        """The embeddings of its queries and documents."""
        if self._embedding is None:
            self._embedding = DemitasseEmbeddings(self._opened.encoder, cut=self._opened.cut)
        return self._embedding

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **named: Any,
    ) -> list[str]:
        """Encode `texts` and put them in; returns their ids. A text whose id is there already replaces that one."""
        given = list(texts)
        chosen = [id_ or str(uuid.uuid4()) for id_ in ids or [None] * len(given)]
        with self._lock:  # an index has one writer
            if self._index is not None:
                return self._index.add(given, chosen, metadatas, progress=False)
            if given:
                encoder = self.embeddings.encoder
                self._index = Index.build(encoder, given, self.folder, ids=chosen, metadata=metadatas, progress=False)
        return chosen

    def delete(self, ids: list[str] | None = None, **named: Any) -> bool:
        """Take texts out; to take all out, remove the folder."""
        if ids is None:
            raise DataError("delete needs the ids of the texts to take out; remove the folder to take out all of them")
        with self._lock:
            if self._index is not None:
                self._index.delete(ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The documents with these ids, as far as they are there."""
        found = [] if self._index is None else self._index.get(ids)
        return [Document(id=one.id, page_content=one.text, metadata=dict(one.metadata)) for one in found]

    def similarity_search(self, query: str, k: int = 4, **named: Any) -> list[Document]:
        """The `k` documents nearest to a query, best first."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **named)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Mapping[str, Any] | None = None, **named: Any
    ) -> list[tuple[Document, float]]:
        """The `k` documents nearest to a query, each with its cosine, best first."""
        layers = None if self._embedding is None else self._embedding.encoders.queries.full.layers
        hits = [] if self._index is None else self._index.search(query, k, where=filter, layers=layers)
        return [(_document(hit), hit.score) for hit in hits]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: Mapping[str, Any] | None = None, **named: Any
    ) -> list[Document]:
        """The `k` documents nearest to a vector of this model, best first."""
        return [_document(hit) for hit in self._hits([embedding], k, filter)]

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **named: Any
    ) -> list[Document]:
        """`k` documents near to a query and different from one another, out of the nearest `fetch_k`."""
        vector = self.embeddings.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, **named)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> list[Document]:
        """The same for a vector of this model; the texts that were found are encoded again, to compare them."""
        hits = self._hits([embedding], fetch_k, filter)
        vectors = self.embeddings.embed_documents([hit.text for hit in hits])
        chosen = maximal_marginal_relevance(np.asarray(embedding), vectors, lambda_mult, k) if hits else []
        return [_document(hits[place]) for place in chosen]

    def _hits(self, vectors: list[list[float]], k: int, where: Mapping[str, Any] | None) -> list[Hit]:
        return [] if self._index is None else self._index.search_vectors(vectors, k, where=where)[0]

    @property
    def _opened(self) -> Index:
        assert self._index is not None
        return self._index

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return lambda cosine: min(max((cosine + 1) / 2, 0.0), 1.0)


class DemitasseRetriever(BaseRetriever):
    """The index of demitasse in a folder as a retriever, which `dumpd` and `load` of langchain_core write and read.

    `k`, `where` and `layers` are those of `Index.search`.

    >>> import demitasse as dt
    >>> index = dt.Index.build(dt.load(), ["a ristretto is a short espresso", "a bicycle has two wheels"], out)
    >>> DemitasseRetriever(index, k=1).invoke("a small coffee")[0].page_content
    'a ristretto is a short espresso'
    """

    index: str
    k: int = 4
    where: dict[str, Any] | None = None
    layers: int | None = None
    _index: Index = PrivateAttr()

    def __init__(
        self,
        index: Index | str | Path,
        *,
        k: int = 4,
        where: Mapping[str, Any] | None = None,
        layers: int | None = None,
        **base: Any,
    ) -> None:
        opened = index if isinstance(index, Index) else Index.open(index)
        super().__init__(index=str(opened.folder), k=k, where=where, layers=layers, **base)  # type: ignore[call-arg]
        self._index = opened

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None, **other: Any
    ) -> list[Document]:
        hits = self._index.search(query, self.k if k is None else k, where=self.where, layers=self.layers)
        return [_document(hit) for hit in hits]

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Whether `dumpd` writes it."""
        return True


def _document(hit: Hit) -> Document:
    return Document(id=hit.id, page_content=hit.text, metadata=dict(hit.metadata))
