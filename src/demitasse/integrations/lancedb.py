"""LanceDB: the embedding function `demitasse`, which a table keeps in its schema.

    import lancedb
    from demitasse.integrations.lancedb import DemitasseFunction
    from lancedb.pydantic import LanceModel, Vector

    function = DemitasseFunction.create(cut="6x128", query_layers=3)

    class Doc(LanceModel):
        text: str = function.SourceField()
        vector: Vector(function.ndims()) = function.VectorField()

    table = lancedb.connect("lance").create_table("docs", schema=Doc)
    table.add([{"text": "a ristretto"}, {"text": "a lungo"}])
    table.search("a small cup").metric("cosine").limit(1).to_list()

Import this module before you open such a table: it registers the function. The table's own model encodes queries and
new rows, and one that was replaced meanwhile is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from demitasse.cut import Cut
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.vectors import Vectors
from demitasse.extras import LANCEDB, need
from demitasse.integrations.encoders import Encoders
from demitasse.integrations.stamps import Stamp, Store

try:
    from lancedb.embeddings import TextEmbeddingFunction, get_registry
    from pydantic import Field, PrivateAttr
except ImportError:
    need(__name__, LANCEDB)
    raise

if TYPE_CHECKING:
    from lancedb.embeddings.utils import TEXT
    from lancedb.table import Table

NAME = "demitasse"


@get_registry().register(NAME)
class DemitasseFunction(TextEmbeddingFunction):
    """The vectors of a model at one cut, for LanceDB; `model` is an encoder, or what `demitasse.load` takes.

    Make one with `DemitasseFunction.create(…)`. Queries and documents get the model's prompts for them. `query_layers`
    runs queries through other layers than documents, in the same space.

    >>> function = DemitasseFunction.create(model=folder, cut="3x16", query_layers=1)
    >>> function.ndims(), len(function.compute_query_embeddings("a ristretto")[0])
    (16, 16)
    """

    model: str | None = None
    cut: str | None = None
    query_layers: int | None = None
    max_seq_length: int | None = None
    space: dict[str, Any] | None = Field(default=None, repr=False)
    max_retries: int = 0  # what fails here fails again
    _encoders: Encoders = PrivateAttr()

    def __init__(
        self,
        *,
        model: Encoder | str | Path | None = None,
        cut: Cut | str | None = None,
        query_layers: int | None = None,
        max_seq_length: int | None = None,
        space: Mapping[str, Any] | None = None,
    ) -> None:
        given: dict[str, Any] = {"cut": cut, "query_layers": query_layers, "max_seq_length": max_seq_length}
        if space is None or isinstance(model, Encoder):
            encoders = Encoders.open(model, **given, space=space)
        else:
            encoders = _reopened(json.dumps({"model": model, **given, "space": space}, default=str))
        super().__init__(**encoders.plain())
        self._encoders = encoders

    def ndims(self) -> int:
        """The dims of the vectors."""
        return self._encoders.documents.full.dims

    def generate_embeddings(self, texts: list[str] | npt.NDArray[Any], *args: Any, **named: Any) -> list[Any]:
        """The vectors of documents."""
        return list(self._encoders.documents.encode_document(list(texts), progress=False))

    def compute_query_embeddings(self, query: TEXT, *args: Any, **named: Any) -> list[Any]:
        """The vectors of queries."""
        return list(self._encoders.queries.encode_query(list(self.sanitize_input(query)), progress=False))

    def safe_model_dump(self) -> dict[str, Any]:
        """What a table keeps of it."""
        return self._encoders.plain()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DemitasseFunction) and self.safe_model_dump() == other.safe_model_dump()

    def __hash__(self) -> int:
        return hash(json.dumps(self.safe_model_dump(), sort_keys=True))


def query_vector(table: Table, query: str, encoder: Encoder) -> Vectors:
    """The vector of a query by an encoder other than the table's own, such as one with fewer layers.

    Its model must be the one that made the vectors of `table`: `table.search(query_vector(table, query, shallow))`.
    """
    stored = json.loads((table.schema.metadata or {}).get(b"embedding_functions", b"[]"))
    ours = next((one["model"] for one in stored if one.get("name") == NAME), None)
    store = Store(f"table {table.name!r}", "make another table, with DemitasseFunction.create(model=encoder)")
    encoders = Stamp.read(ours, store).encoders(encoder)
    return np.asarray(encoders.queries.encode_query([query], progress=False)[0])


# LanceDB makes the function of a table anew for each search. The space in `plain` says that these are the right ones.
@lru_cache(maxsize=4)
def _reopened(plain: str) -> Encoders:
    return Encoders.open(**json.loads(plain))
