"""`Encoders`: what turns the texts of another library into vectors, and how that library writes it into its files.

Documents are encoded at one cut. Queries have the same dims, and may use other layers: all depths of a model share one
space. In a library's own files this is a few plain values, one of which names that space: a model that was replaced
meanwhile is refused, since its vectors cannot be compared with those that are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demitasse.arguments import text
from demitasse.cut import Cut
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.loading import load
from demitasse.encoding.spaces import Space
from demitasse.errors import DataError, shown
from demitasse.host.bundled import BUILT_IN


@dataclass(frozen=True)
class Encoders:
    """The encoder of documents, and the one of queries: the same model and dims, each with its own layers."""

    documents: Encoder
    queries: Encoder

    @classmethod
    def open(
        cls,
        model: Encoder | str | Path | None = None,
        *,
        cut: Cut | str | None = None,
        query_layers: int | None = None,
        max_seq_length: int | None = None,
        space: Mapping[str, Any] | None = None,
    ) -> Encoders:
        """The encoders of `model`, which is an encoder or what `demitasse.load` takes, at `cut`.

        The values of `plain` give the same encoders again, or one sentence if `model` has another space by now.

        >>> opened = Encoders.open(folder, cut="3x16", query_layers=1)
        >>> opened.queries.full
        Cut(layers=1, dims=16)
        >>> Encoders.open(**opened.plain()).documents.full
        Cut(layers=3, dims=16)
        """
        encoder = model if isinstance(model, Encoder) else load(model)
        if max_seq_length is not None and max_seq_length < encoder.max_seq_length:
            encoder = encoder._limited_to(max_seq_length)
        difference = None if space is None else read_space(space).difference(encoder.space)
        if difference is not None:
            raise DataError(
                f"{encoder.name} is not the model that it was when this was written: {difference} changed; put that "
                "model back, or index the texts again with this one"
            )
        documents = encoder if cut is None else encoder.cut(Cut.of(cut))
        if query_layers is None:
            return cls(documents, documents)
        return cls(documents, encoder.cut(layers=query_layers, dims=documents.full.dims))

    def plain(self) -> dict[str, Any]:
        """What `open` needs to give these encoders again, as JSON has it."""
        encoder, layers = self.documents, self.queries.full.layers
        return {
            "model": loaded_from(encoder),
            "cut": str(encoder.full),
            "query_layers": None if layers == encoder.full.layers else layers,
            "max_seq_length": encoder.max_seq_length,
            "space": plain_space(encoder.space),
        }

    def document_vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each document."""
        vectors: list[list[float]] = self.documents.encode_document(texts, progress=False).tolist()
        return vectors

    def query_vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each query."""
        vectors: list[list[float]] = self.queries.encode_query(texts, progress=False).tolist()
        return vectors


def plain_space(space: Space) -> dict[str, Any]:
    """A space as JSON has it."""
    return {
        "depths": list(space.depths),
        "tokenizer": space.tokenizer,
        "prompts": dict(space.prompts),
        "default_prompt": space.default_prompt,
    }


def read_space(plain: Mapping[str, Any]) -> Space:
    """The space that `plain_space` gave."""
    try:
        depths = tuple(text("depths", one) for one in (plain["depths"][0], *plain["depths"][1:]))
        return Space(depths, plain["tokenizer"], dict(plain["prompts"]), plain["default_prompt"])
    except (LookupError, TypeError, ValueError):
        raise DataError(
            f"space must be what demitasse wrote, not {shown(plain)}; leave it out, or restore the file it comes from"
        ) from None


def loaded_from(encoder: Encoder) -> str | None:
    """What `load` takes for `encoder`; of one that was never saved, the name, whose space tells it apart later."""
    if encoder.folder == BUILT_IN:
        return None
    return encoder.name if encoder.folder is None else str(encoder.folder)
