"""Haystack: `DemitasseTextEmbedder` and `DemitasseDocumentEmbedder`, for any document store; `DemitasseRetriever`, over
an index of demitasse.

    from demitasse.integrations.haystack import DemitasseDocumentEmbedder, DemitasseTextEmbedder

    indexing.add_component("embedder", DemitasseDocumentEmbedder(cut="6x128"))
    asking.add_component("embedder", DemitasseTextEmbedder(cut="3x128"))

Queries run through fewer layers here than documents do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from demitasse.cut import Cut
from demitasse.encoding.encoder import Encoder
from demitasse.errors import DataError, shown
from demitasse.extras import HAYSTACK, need
from demitasse.integrations.encoders import Encoders
from demitasse.search.index import Index

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError:
    need(__name__, HAYSTACK)
    raise

_RANGES = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


@component
class DemitasseTextEmbedder:
    """A query to its vector; `model` is an encoder, or what `demitasse.load` takes.

    The dims of `cut` are those of the documents; its layers may be fewer, in the same space. The model is loaded when
    it is first needed. A pipeline's file holds the name of its space, and another model is refused when it is loaded.

    >>> len(DemitasseTextEmbedder(folder, cut="1x16").run("a ristretto")["embedding"])
    16
    """

    def __init__(
        self,
        model: Encoder | str | Path | None = None,
        *,
        cut: Cut | str | None = None,
        max_seq_length: int | None = None,
        space: Mapping[str, Any] | None = None,
    ) -> None:
        self._model = _LateEncoders(model, cut, max_seq_length, space)

    def warm_up(self) -> None:
        """Load the model."""
        self._model.open()

    def to_dict(self) -> dict[str, Any]:
        """The component in a pipeline's file."""
        return default_to_dict(self, **self._model.plain())

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> DemitasseTextEmbedder:
        """The component of a pipeline's file."""
        return default_from_dict(cls, data)

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, Any]:
        """The vector of a query, as `embedding`."""
        if not isinstance(text, str):
            raise DataError(f"text must be a string, not {shown(text)}; a DemitasseDocumentEmbedder takes documents")
        return {"embedding": self._model.open().query_vectors([text])[0]}

    @component.output_types(embedding=list[float])
    async def run_async(self, text: str) -> dict[str, Any]:
        """The same, without keeping others waiting."""
        return await asyncio.to_thread(self.run, text)


@component
class DemitasseDocumentEmbedder:
    """Documents to the same documents with vectors; `model` is an encoder, or what `demitasse.load` takes.

    The fields of `meta_fields_to_embed` that a document has go before its text, joined by `embedding_separator`. The
    model is loaded when it is first needed, and another model in its place is refused when a pipeline is loaded.

    >>> (document,) = DemitasseDocumentEmbedder(folder, cut="3x16").run([Document(content="a lungo")])["documents"]
    >>> len(document.embedding)
    16
    """

    def __init__(
        self,
        model: Encoder | str | Path | None = None,
        *,
        cut: Cut | str | None = None,
        max_seq_length: int | None = None,
        space: Mapping[str, Any] | None = None,
        meta_fields_to_embed: list[str] | None = None,
        embedding_separator: str = "\n",
    ) -> None:
        self._model = _LateEncoders(model, cut, max_seq_length, space)
        self.meta_fields_to_embed = meta_fields_to_embed or []
        self.embedding_separator = embedding_separator

    def warm_up(self) -> None:
        """Load the model."""
        self._model.open()

    def to_dict(self) -> dict[str, Any]:
        """The component in a pipeline's file."""
        return default_to_dict(
            self,
            **self._model.plain(),
            meta_fields_to_embed=self.meta_fields_to_embed,
            embedding_separator=self.embedding_separator,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> DemitasseDocumentEmbedder:
        """The component of a pipeline's file."""
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """The documents with their vectors, as `documents`; those that were given stay as they are."""
        if not isinstance(documents, list) or not all(isinstance(one, Document) for one in documents):
            raise DataError(
                f"documents must be a list of Documents, not {shown(documents)}; a DemitasseTextEmbedder takes a string"
            )
        vectors = self._model.open().document_vectors([self._text(document) for document in documents])
        embedded = [replace(one, embedding=vector) for one, vector in zip(documents, vectors, strict=True)]
        return {"documents": embedded}

    @component.output_types(documents=list[Document])
    async def run_async(self, documents: list[Document]) -> dict[str, Any]:
        """The same, without keeping others waiting."""
        return await asyncio.to_thread(self.run, documents)

    def _text(self, document: Document) -> str:
        fields = [str(document.meta[name]) for name in self.meta_fields_to_embed if document.meta.get(name) is not None]
        return self.embedding_separator.join([*fields, document.content or ""])


@component
class DemitasseRetriever:
    """The documents of an index of demitasse that are nearest to a query; `index` is one, or its folder.

    `layers` is how many layers encode the query. Filters are Haystack's, of `==`, `in`, `>`, `>=`, `<`, `<=`, `AND` and
    `OR` on fields such as `meta.lang`. A pipeline's file holds the folder.

    >>> import demitasse as dt
    >>> index = dt.Index.build(dt.load(), ["a ristretto is a short espresso", "a bicycle has two wheels"], out)
    >>> DemitasseRetriever(index, top_k=1).run("a small coffee")["documents"][0].content
    'a ristretto is a short espresso'
    """

    def __init__(
        self,
        index: Index | str | Path,
        *,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
        layers: int | None = None,
    ) -> None:
        self._given, self._index = index, index if isinstance(index, Index) else None
        self.top_k, self.filters, self.layers = top_k, filters, layers

    def warm_up(self) -> None:
        """Open the index."""
        if self._index is None:
            self._index = Index.open(self._given)  # type: ignore[arg-type]  # a folder

    def to_dict(self) -> dict[str, Any]:
        """The component in a pipeline's file."""
        folder = str(self._given.folder if isinstance(self._given, Index) else self._given)
        return default_to_dict(self, index=folder, top_k=self.top_k, filters=self.filters, layers=self.layers)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> DemitasseRetriever:
        """The component of a pipeline's file."""
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document])
    def run(self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None) -> dict[str, Any]:
        """The nearest documents with their scores, as `documents`; `filters` and `top_k` replace those of the start."""
        self.warm_up()
        assert self._index is not None
        chosen = filters or self.filters
        where = where_of(chosen) if chosen else None
        hits = self._index.search(query, self.top_k if top_k is None else top_k, where=where, layers=self.layers)
        documents = [Document(id=hit.id, content=hit.text, meta=dict(hit.metadata), score=hit.score) for hit in hits]
        return {"documents": documents}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, Any]:
        """The same, without keeping others waiting."""
        return await asyncio.to_thread(self.run, query, filters, top_k)


def where_of(filters: dict[str, Any]) -> dict[str, Any]:
    """The `where` of `Index.search` that says what Haystack's `filters` say.

    >>> where_of({"field": "meta.year", "operator": ">=", "value": 2020})
    {'year': {'gte': 2020}}
    """
    operator = filters.get("operator")
    if "conditions" in filters and operator in ("AND", "OR"):
        return {operator.lower(): [where_of(part) for part in filters["conditions"]]}
    if "field" in filters and "value" in filters:
        field, value = str(filters["field"]).removeprefix("meta."), filters["value"]
        if operator in ("==", "in"):
            return {field: value}
        if operator in _RANGES:
            return {field: {_RANGES[operator]: value}}
    raise DataError(
        f"{shown(filters)} is not a filter that an index can answer; use ==, in, >, >=, <, <= on fields of meta, and "
        "AND or OR over a list of conditions"
    )


@dataclass
class _LateEncoders:
    """The encoders of a component, opened when they are first needed: pipelines are drawn and checked without them."""

    model: Encoder | str | Path | None
    cut: Cut | str | None
    max_seq_length: int | None
    space: Mapping[str, Any] | None
    opened: Encoders | None = None

    def open(self) -> Encoders:
        if self.opened is None:
            self.opened = Encoders.open(self.model, cut=self.cut, max_seq_length=self.max_seq_length, space=self.space)
        return self.opened

    def plain(self) -> dict[str, Any]:
        plain = self.open().plain()
        del plain["query_layers"]  # a component encodes either queries or documents
        return plain
