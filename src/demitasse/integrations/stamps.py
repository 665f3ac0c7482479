"""`Stamp`: what a collection or table of a database says about its vectors, and which encoders may use it.

Any number of layers of the same space may search. An encoder with more dims than are stored is cut to those, since they
are a prefix of its own. Anything else would compare what cannot be compared, and is refused.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from demitasse.arguments import whole
from demitasse.cut import Cut
from demitasse.encoding.checked_encoder import checked_encoder
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.spaces import Space
from demitasse.encoding.vectors import Vectors
from demitasse.errors import DataError, shown
from demitasse.integrations.encoders import Encoders, loaded_from, plain_space, read_space
from demitasse.search.documents import NewDocument

KEY = "demitasse"  # of the stamp among other metadata of a collection
_Self = TypeVar("_Self", bound="Stamped")


@dataclass(frozen=True)
class Store:
    """Whose stamp it is, for people: `collection 'docs'`, and the call that indexes the texts again elsewhere."""

    name: str
    again: str

    def refusal(self, why: str) -> DataError:
        """The error that says why it cannot be used, and what to do."""
        return DataError(f"{self.name} {why} index its texts again: {self.again}")


@dataclass(frozen=True)
class Stamp:
    """What a store says about its vectors."""

    store: Store
    model: str | None  # what `load` takes
    max_seq_length: int
    cut: Cut
    space: Space

    @classmethod
    def of(cls, encoder: Encoder, store: Store) -> Stamp:
        """What a new store with vectors of `encoder` says."""
        model = loaded_from(checked_encoder(encoder))
        return cls(store, model, encoder.max_seq_length, encoder.full, encoder.space)

    @classmethod
    def read(cls, plain: Any, store: Store) -> Stamp:
        """The stamp of `store`, as `plain` gave it."""
        if plain is None:
            raise store.refusal("does not say which model made its vectors, so nothing can be compared with them;")
        try:
            model, tokens = plain["model"], whole("max_seq_length", plain["max_seq_length"], least=1)
            known = None if model is None else str(model)
            return cls(store, known, tokens, Cut.parse(plain["cut"]), read_space(plain["space"]))
        except (KeyError, TypeError, ValueError):
            raise store.refusal(f"has a stamp that cannot be read, {shown(plain)};") from None

    def plain(self) -> dict[str, Any]:
        """The stamp as JSON has it."""
        return {
            "model": self.model,
            "max_seq_length": self.max_seq_length,
            "cut": str(self.cut),
            "space": plain_space(self.space),
        }

    def encoders(self, encoder: Encoder | None) -> Encoders:
        """The encoders that may use it: documents at the cut of the stored ones, queries at the layers of `encoder`.

        Without one, the model is loaded from where it was. One that has fewer layers than the stored documents can
        search, and `check_additions` refuses it.
        """
        if encoder is None:
            encoder = Encoders.open(
                self.model, cut=self.cut, max_seq_length=self.max_seq_length, space=plain_space(self.space)
            ).documents
        difference = self.space.difference(checked_encoder(encoder).space)
        if difference is not None:
            raise self.store.refusal(
                f"holds vectors of {self.model or 'the built-in model'}, and this encoder, {encoder.name}, is another "
                f"model ({difference} {'differs' if difference.endswith('tokenizer') else 'differ'}); open it with "
                "that one, or"
            )
        if encoder.full.dims < self.cut.dims:
            raise self.store.refusal(
                f"holds vectors of {self.cut.dims} dims, and this encoder gives {encoder.full.dims}; open it with at "
                f"least {self.cut.dims} dims, or"
            )
        queries = encoder.cut(dims=self.cut.dims)
        return Encoders(queries.cut(layers=min(self.cut.layers, encoder.full.layers)), queries)

    def check_additions(self, encoders: Encoders) -> None:
        """Refuse documents with fewer layers than the stored ones have."""
        if encoders.documents.full.layers != self.cut.layers:
            raise DataError(
                f"{self.store.name} holds documents at {self.cut}, and this encoder, at {encoders.queries.full}, is "
                f"deep enough for queries only; open it with {self.cut.layers} layers to add documents"
            )


@dataclass(frozen=True)
class Stamped:
    """A table or collection with a stamp, whichever client talks to it."""

    client: Any
    name: str
    stamp: Stamp
    encoders: Encoders

    @classmethod
    def _of(cls: type[_Self], client: Any, name: str, encoder: Encoder | None, stamp: Stamp) -> _Self:
        return cls(client, name, stamp, stamp.encoders(encoder))

    def _encoded(self, piece: Sequence[NewDocument]) -> tuple[list[str], Vectors]:
        """The ids of new documents, random where none was given, and their vectors."""
        self.stamp.check_additions(self.encoders)
        vectors = self.encoders.documents.encode_document([one.text for one in piece], progress=False)
        return [one.id or str(uuid.uuid4()) for one in piece], vectors
