"""What a server offers: its model under its names, every cut of it, and what was measured of some of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demitasse.cut import Cut, usual_dims
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.reader import Reader
from demitasse.encoding.vectors import STORED
from demitasse.errors import CutError
from demitasse.host.fields import shown_json
from demitasse.planning.profile import Profile
from demitasse.serving.api_errors import ApiError

BUILT_IN_NAME = "demitasse"
ENCODINGS = ("float", "base64")
_UNUSED = re.compile(r"[\[<]unused_?\d+[\]>]")
_BRACKETED = re.compile(r"\[.+\]|<.+>")
INPUT_TYPES = ("query", "document")


@dataclass(frozen=True, eq=False)
class Offer:
    """The model of a server, as its clients know it."""

    names: tuple[str, ...]  # the first is its own, the others do as well
    full: Cut
    max_tokens: int
    largest_id: int  # of a token
    reserved_ids: Mapping[int, str]  # tokens that no text has
    measured: Sequence[Mapping[str, Any]]  # cuts with what is known of their quality
    facts: Mapping[str, Any]  # for people: architecture, precision, fingerprint
    created: int  # seconds since 1970, as OpenAI's models have

    @classmethod
    def of(cls, encoder: Encoder, names: Sequence[str], created: int, profile: Profile | None = None) -> Offer:
        """What a server with this encoder offers."""
        facts = {
            "architecture": encoder.architecture,
            "precision": encoder.precision,
            "fingerprint": encoder.fingerprint,
        }
        largest_id = encoder.reader.tokenizer.vocabulary_size - 1
        reserved = reserved_ids(encoder.reader)
        limit = encoder.max_seq_length
        measured = _measured(encoder, profile)
        return cls(tuple(names), encoder.full, limit, largest_id, reserved, measured, facts, created)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.names[0]

    def named(self, cut: Cut) -> str:
        """The model and the cut in one name, as requests may write it."""
        return f"{self.name}:{cut}"

    def cut(self, model: str | None, layers: int | None, dims: int | None) -> Cut:
        """The cut that a request asks for: in fields of its own, else in the name of the model, else all of it."""
        named_layers, named_dims = self._in_name(model)
        wanted = Cut(first_known(layers, named_layers, self.full.layers), first_known(dims, named_dims, self.full.dims))
        if not wanted.fits(self.full):
            raise self.refused(f"model {shown_json(model)} asks for {wanted}", "model")
        return wanted

    def refused(self, problem: str, param: str) -> ApiError:
        """An error about a cut, with all that could be asked for instead."""
        return ApiError(400, f"{problem}; {self.sentence()}", param=param, offers=self.choices())

    def sentence(self) -> str:
        """What may be asked for, in words."""
        known = ", ".join(str(entry["cut"]) for entry in self.measured)
        measured = f"; measured: {known}" if known else ""
        return f"{self.name} offers 0 to {self.full.layers} layers and 1 to {self.full.dims} dimensions{measured}"

    def name_pattern(self) -> str:
        """The names that may be asked for, as a regular expression; any other number of dims will do as well."""
        names = "|".join(re.escape(name) for name in self.names)
        layers = "|".join(map(str, range(self.full.layers + 1)))
        dims = "|".join(map(str, usual_dims(self.full.dims)))
        return f"^({names})(:({layers})(x({dims}))?)?$"

    def choices(self) -> dict[str, Any]:
        """What may be asked for, for programs."""
        return {
            "layers": {"minimum": 0, "maximum": self.full.layers},
            "dimensions": {"minimum": 1, "maximum": self.full.dims},
            "encoding_format": list(ENCODINGS),
            "input_type": list(INPUT_TYPES),
            "output_dtype": list(STORED),
        }

    def models(self) -> list[dict[str, Any]]:
        """All models that `GET /v1/models` lists: the whole one under each of its names, and each measured cut."""
        whole = [self._whole(name) for name in self.names]
        return [*whole, *(self._entry(Cut.parse(entry["cut"])) for entry in self.measured)]

    def model(self, name: str) -> dict[str, Any]:
        """One of them, or the model at any other cut."""
        return self._whole(name) if name in self.names else self._entry(self.cut(name, None, None))

    def _whole(self, name: str) -> dict[str, Any]:
        return self._entry(self.full) | {
            "id": name,
            "max_tokens": self.max_tokens,
            **self.facts,
            "offers": self.choices(),
            "cuts": [dict(entry) for entry in self.measured],
        }

    def _entry(self, cut: Cut) -> dict[str, Any]:
        known = next((entry for entry in self.measured if entry["cut"] == str(cut)), {})
        return {
            "id": self.named(cut),
            "object": "model",
            "created": self.created,
            "owned_by": "demitasse",
            "layers": cut.layers,
            "dimensions": cut.dims,
            **{name: value for name, value in known.items() if name != "cut" and value is not None},
        }

    def _in_name(self, model: str | None) -> tuple[int | None, int | None]:
        """The layers and dims that the name of a model says, such as `demitasse:3x128` or `demitasse:3`."""
        if model is None or model in self.names:
            return None, None
        name, _, written = model.rpartition(":")
        if name not in self.names:
            raise ApiError(
                404,
                f"there is no model {shown_json(model)} here; use {' or '.join(self.names)}, with a cut if you want "
                f"one, such as {self.named(self.full)}",
                param="model",
                code="model_not_found",
            )
        if written.isascii() and written.isdigit() and len(written) < 10:
            return int(written), None
        try:
            return tuple(Cut.parse(written))  # type: ignore[return-value]
        except CutError:
            problem = f"cannot read {shown_json(written)} as a cut; write layers x dims, such as {self.full}"
            raise self.refused(problem, "model") from None


def _measured(encoder: Encoder, profile: Profile | None) -> list[dict[str, Any]]:
    """The cuts of which something was measured: when the model was fitted, and in a profile of it."""
    found = {entry["cut"]: dict(entry) for entry in encoder.record.get("cuts", ())}
    for row in profile.rows if profile is not None else ():
        if (row.precision, row.vectors, row.name) == (encoder.precision, "float32", None):
            timing = {"p50_ms": row.timing.p50_ms, "p95_ms": row.timing.p95_ms}
            found.setdefault(str(row.cut), {"cut": str(row.cut)}).update(quality=row.quality, **timing)
    cuts = sorted(Cut.parse(cut) for cut in found)
    return [found[str(cut)] for cut in cuts if cut.fits(encoder.full)]


def reserved_ids(reader: Reader) -> dict[int, str]:
    """Tokens that the tokenizer gives for no text: those left unused in the vocabulary, and those put around a text.

    A request with one of them has ids of another tokenizer, or special tokens that would be there twice.
    """
    around = set(reader.read([""]).ids_of(0))
    vocabulary = reader.tokenizer.vocabulary().items()
    return {
        token: written
        for written, token in vocabulary
        if _UNUSED.fullmatch(written) or (token in around and _BRACKETED.fullmatch(written))
    }


def first_known(*values: int | None) -> int:
    """The first of `values` that is not `None`.

    >>> first_known(None, 0, 6)
    0
    """
    return next(value for value in values if value is not None)
