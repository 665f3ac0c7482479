"""LlamaIndex: `DemitasseEmbedding`, for any of its indexes, and `DemitasseRetriever`, over an index of demitasse.

from demitasse.integrations.llama_index import DemitasseEmbedding

Settings.embed_model = DemitasseEmbedding(cut="6x128", query_layers=3)
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from demitasse.cut import Cut
from demitasse.encoding.encoder import Encoder
from demitasse.errors import DataError
from demitasse.extras import LLAMA_INDEX, need
from demitasse.integrations.encoders import Encoders
from demitasse.search.index import Index

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
    from llama_index.core.callbacks.base import CallbackManager
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
except ImportError:
    need(__name__, LLAMA_INDEX)
    raise


class DemitasseEmbedding(BaseEmbedding):
    """The vectors of a model at one cut, for LlamaIndex; `model` is an encoder, or what `demitasse.load` takes.

    Queries and texts get the model's prompts for queries and documents. `query_layers` runs queries through other
    layers than texts, in the same space. `to_dict` and `from_dict` write and read it; a model that has another space by
    then is refused. `base` are the fields of `BaseEmbedding`, such as `callback_manager`.

    >>> embedding = DemitasseEmbedding(folder, cut="3x16", query_layers=1)
    >>> len(embedding.get_query_embedding("a ristretto"))
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
        **base: Any,
    ) -> None:
        unknown = base.keys() - BaseEmbedding.model_fields.keys()
        if unknown:
            raise DataError(f"DemitasseEmbedding has no option {min(unknown)!r}; see its docstring")
        encoders = Encoders.open(model, cut=cut, query_layers=query_layers, max_seq_length=max_seq_length, space=space)
        # Batches are made by the encoder, from as many texts as LlamaIndex may hand over at once.
        named = {"model_name": f"{encoders.documents.name} {encoders.documents.full}", "embed_batch_size": 2048}
        super().__init__(**encoders.plain(), **{**named, **base})
        self._encoders = encoders

    @classmethod
    def class_name(cls) -> str:
        """The name that is written beside the values of `to_dict`."""
        return "DemitasseEmbedding"

    @property
    def encoder(self) -> Encoder:
        """The encoder of documents."""
        return self._encoders.documents

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._encoders.query_vectors([query])[0]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._encoders.document_vectors([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._encoders.document_vectors(texts)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)


class DemitasseRetriever(BaseRetriever):
    """An index of demitasse, or the folder of one, as a retriever; `k`, `where` and `layers` are as in `Index.search`.

    >>> import demitasse as dt
    >>> index = dt.Index.build(dt.load(), ["a ristretto is a short espresso", "a bicycle has two wheels"], out)
    >>> DemitasseRetriever(index, k=1).retrieve("a small coffee")[0].node.get_content()
    'a ristretto is a short espresso'
    """

    def __init__(
        self,
        index: Index | str | Path,
        *,
        k: int = 4,
        where: Mapping[str, Any] | None = None,
        layers: int | None = None,
        callback_manager: CallbackManager | None = None,
    ) -> None:
        self.index = index if isinstance(index, Index) else Index.open(index)
        self.k, self.where, self.layers = k, where, layers
        super().__init__(callback_manager)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if query_bundle.embedding is not None:  # made by this model, outside
            (hits,) = self.index.search_vectors([query_bundle.embedding], self.k, where=self.where)
        else:
            hits = self.index.search(query_bundle.query_str, self.k, where=self.where, layers=self.layers)
        nodes = [TextNode(id_=hit.id, text=hit.text, metadata=dict(hit.metadata)) for hit in hits]
        return [NodeWithScore(node=node, score=hit.score) for node, hit in zip(nodes, hits, strict=True)]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)
