"""Chroma: `DemitasseEmbeddingFunction`, for any of its collections, and `collection`, which opens or makes one.

    import chromadb
    from demitasse.integrations.chroma import collection

    docs = collection(chromadb.PersistentClient("chroma"), "docs", dt.load())
    docs.add(ids=["r", "l"], documents=["a ristretto", "a lungo"])
    docs.query(query_texts=["a small cup"], n_results=1)

Of an embedding function that is given to `get_collection`, Chroma compares only the name with the one that is stored.
So the name here has the fingerprint of the space in it: another model is refused by Chroma itself, and by `collection`
with the reason and the cure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from demitasse.cut import Cut
from demitasse.encoding.checked_encoder import checked_encoder
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.fingerprints import fingerprint
from demitasse.errors import DataError
from demitasse.extras import CHROMA, need
from demitasse.integrations.encoders import Encoders
from demitasse.integrations.stamps import Stamp, Store

try:
    from chromadb.api.types import Documents, EmbeddingFunction, Embeddings, Space
    from chromadb.errors import NotFoundError
    from chromadb.utils.embedding_functions import known_embedding_functions
except ImportError:
    need(__name__, CHROMA)
    raise

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

NAME = "demitasse"


def collection(client: ClientAPI, name: str, encoder: Encoder | None = None) -> Collection:
    """The collection `name`, made for the vectors of `encoder` if there is none yet.

    One that is there must hold vectors of the same model: then any number of layers may search it, and all of its dims
    are used. Without an encoder, its own model is loaded.
    """
    try:
        configuration = client.get_collection(name).configuration_json
    except NotFoundError:
        if encoder is None:
            raise DataError(f"there is no collection {name!r} yet; give the encoder to make it for") from None
        function: Any = DemitasseEmbeddingFunction(checked_encoder(encoder))
        return client.create_collection(name, embedding_function=function)
    stored = configuration.get("embedding_function") or {}
    ours = str(stored.get("name")).partition("-")[0] == NAME
    stamp = Stamp.read(stored.get("config") if ours else None, _store(f"collection {name!r}"))
    function = DemitasseEmbeddingFunction._for(stamp, stamp.encoders(encoder))
    return client.get_collection(name, embedding_function=function)


class _Name:
    """The name of a function: of the class for Chroma's register, of an instance with its space."""

    def __get__(self, function: DemitasseEmbeddingFunction | None, kind: type) -> Callable[[], str]:
        if function is None:
            return lambda: NAME
        # All depths of a model have this in common, so that any of them may search.
        space = function.encoders.documents.space
        return lambda: f"{NAME}-{fingerprint([space.depths[0], space.tokenizer])[:16]}"


class DemitasseEmbeddingFunction(EmbeddingFunction[Documents]):
    """The vectors of a model at one cut, for Chroma; `model` is an encoder, or what `demitasse.load` takes.

    Queries and documents get the model's prompts for them. `query_layers` runs queries through other layers than
    documents, in the same space. Chroma writes it into the configuration of a collection.

    >>> function = DemitasseEmbeddingFunction(folder, cut="3x16", query_layers=1)
    >>> function(["a ristretto"])[0].shape, function.embed_query(["a lungo"])[0].shape
    ((16,), (16,))
    """

    name = _Name()

    def __init__(
        self,
        model: Encoder | str | Path | None = None,
        *,
        cut: Cut | str | None = None,
        query_layers: int | None = None,
        max_seq_length: int | None = None,
        space: Mapping[str, Any] | None = None,
    ) -> None:
        self.encoders = Encoders.open(
            model, cut=cut, query_layers=query_layers, max_seq_length=max_seq_length, space=space
        )
        self._stamp: Stamp | None = None
        known_embedding_functions[self.name()] = type(self)

    @classmethod
    def _for(cls, stamp: Stamp, encoders: Encoders) -> DemitasseEmbeddingFunction:
        function = cls(encoders.documents)
        function.encoders, function._stamp = encoders, stamp
        return function

    def __call__(self, input: Documents) -> Embeddings:
        """The vectors of documents."""
        if self._stamp is not None:
            self._stamp.check_additions(self.encoders)
        return [np.asarray(vector) for vector in self.encoders.documents.encode_document(input, progress=False)]

    def embed_query(self, input: Documents) -> Embeddings:
        """The vectors of queries."""
        return [np.asarray(vector) for vector in self.encoders.queries.encode_query(input, progress=False)]

    def default_space(self) -> Space:
        """What a new collection compares vectors by: `cosine`."""
        return "cosine"

    def get_config(self) -> dict[str, Any]:
        """What Chroma writes into the configuration of a collection."""
        return self.encoders.plain()

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> DemitasseEmbeddingFunction:
        """The function of a collection's configuration; a model that has another space by now is refused."""
        return DemitasseEmbeddingFunction(**config)

    def validate_config_update(self, old_config: dict[str, Any], new_config: dict[str, Any]) -> None:
        """Refuse another model, or other dims, for a collection that has vectors."""
        stamp = Stamp.read(old_config, _store("the collection"))
        stamp.encoders(self.encoders.documents)
        if str(stamp.cut) != new_config["cut"]:
            raise stamp.store.refusal(f"holds vectors at {stamp.cut}, not {new_config['cut']}; keep that cut, or")

    def is_legacy(self) -> bool:
        """Whether it lacks what Chroma asks for today."""
        return False  # without loading the model once more, as the inherited one does


def _store(name: str) -> Store:
    return Store(name, "collection(client, 'another name', encoder).add(ids=ids, documents=texts)")
