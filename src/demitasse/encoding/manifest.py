"""`demitasse.json`: what a model folder says about itself. The one file that knows its fields.

    schema, demitasse       version of this format, release that wrote it
    full, exits             largest cut the folder gives, depths that have an exit of their own
    cuts, objective, data, source
                            where the model comes from, what was fitted or trained

A model on torch adds `head` (the steps that depths without an exit use) and `matryoshka_dimensions` (the dims worth
offering). An export adds `kind` ("blocks" or "onnx"), `fingerprint`, `precision`, `architecture`, `pooling`, `reader`
(how texts are read), `files` (bytes of each) and `against_torch` (how the export compared with torch).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from demitasse._version import __version__
from demitasse.cut import Cut, usual_dims
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.fingerprints import fingerprint
from demitasse.encoding.pooling import Pooling
from demitasse.errors import FolderError
from demitasse.host.json_files import read_json, write_json

MANIFEST = "demitasse.json"
SCHEMA = 1
RECORD = ("cuts", "objective", "data", "source")  # copied from folder to folder
_READING = ("max_tokens", "prompts", "default_prompt", "lowercase", "pad_id", "empty_id")


@dataclass(frozen=True, eq=False)
class Manifest:
    """The manifest of `folder`; `fields` are what its file holds, in order."""

    folder: Path
    fields: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest of `folder`; `None` if demitasse did not write that folder."""
        path = folder / MANIFEST
        if not path.is_file():
            return None
        fields = read_json(path)
        schema = fields.get("schema") if isinstance(fields, dict) else None
        if schema != SCHEMA:
            raise FolderError(
                f"{path} has schema {schema!r}, and this demitasse {__version__} reads schema {SCHEMA}; "
                "pip install --upgrade demitasse, or save or export the model again"
            )
        return cls(folder, fields)

    @classmethod
    def of_torch_model(cls, folder: Path, encoder: Encoder, head: Sequence[str | None]) -> Manifest:
        """The manifest of `encoder` saved to run on torch.

        `head` has the activation of each Dense, and `None` for each Normalize.
        """
        full, record = encoder.full, encoder.record
        fields = {
            "schema": SCHEMA,
            "demitasse": __version__,
            "full": str(full),
            "exits": encoder.exit_depths,
            "head": [
                {"step": "normalize"} if activation is None else {"step": "dense", "activation": activation}
                for activation in head
            ],
            "cuts": _cuts_within(full, record.get("cuts", ())),
            "objective": record.get("objective"),
            "data": record.get("data"),
            "source": record.get("source"),
            "matryoshka_dimensions": usual_dims(full.dims),
        }
        return cls(folder, fields)

    @classmethod
    def of_export(cls, folder: Path, encoder: Encoder, kind: str, precision: str) -> Manifest:
        """The manifest of `encoder` exported as `kind` ("blocks" or "onnx"), before its files are written."""
        pooling = encoder.pooling
        fields = {
            "schema": SCHEMA,
            "kind": kind,
            "demitasse": __version__,
            "fingerprint": fingerprint([precision, encoder.fingerprint])[:16],
            "precision": precision,
            "full": str(encoder.full),
            "architecture": encoder.architecture,
            "pooling": {"modes": list(pooling.modes), "include_prompt": pooling.include_prompt},
            "reader": {key: _plain(getattr(encoder.reader, key)) for key in _READING},
            "exits": encoder.exit_depths,
            **{key: encoder.record.get(key) for key in RECORD},
        }
        return cls(folder, fields)

    def with_files(self, names: Iterable[str]) -> Manifest:
        """The same with the size of each of these files of its folder."""
        return self._plus(files={name: (self.folder / name).stat().st_size for name in names})

    def with_comparison(self, sentences: int, max_difference: float, mean_cosine: Mapping[int, float]) -> Manifest:
        """The same with how the export compared with torch on so many sentences, cosines by depth."""
        cosines = {str(depth): round(cosine, 6) for depth, cosine in mean_cosine.items()}
        compared = {"sentences": sentences, "max_difference": max_difference, "mean_cosine": cosines}
        return self._plus(against_torch=compared)

    def narrowed(self, full: Cut, folder: Path, max_tokens: int) -> Manifest:
        """What still holds for the cut `full`, saved to `folder`; fingerprint and source stay those of the model."""
        changed: dict[str, Any] = {
            "full": str(full),
            "exits": [depth for depth in self.exits if depth <= full.layers],
            "cuts": _cuts_within(full, self.fields.get("cuts") or ()),
            "reader": {**self.reading, "max_tokens": max_tokens},
        }
        compared = self.fields.get("against_torch")
        if compared:
            cosines = compared["mean_cosine"].items()
            kept = {depth: cosine for depth, cosine in cosines if int(depth) <= full.layers}
            changed["against_torch"] = {**compared, "mean_cosine": kept}
        return replace(self._plus(**changed), folder=folder)

    def write(self) -> None:
        """Write it into its folder."""
        write_json(self.folder / MANIFEST, dict(self.fields))

    @property
    def kind(self) -> str | None:
        """`blocks` or `onnx` for an export; `None` for a model on torch."""
        return self.fields.get("kind")

    @property
    def full(self) -> Cut:
        """The largest cut the folder gives."""
        return Cut.parse(self._field("full"))

    @property
    def exits(self) -> list[int]:
        """The depths that have an exit of their own."""
        return list(self._field("exits"))

    @property
    def record(self) -> dict[str, Any]:
        """Where the model comes from, what was fitted or trained; without what is unknown."""
        return {key: self.fields[key] for key in RECORD if self.fields.get(key)}

    @property
    def head(self) -> list[str | None]:
        """The steps that depths without an exit use: the activation of each Dense, `None` for a Normalize."""
        steps = self._field("head")
        try:
            return [None if step["step"] == "normalize" else step["activation"] for step in steps]
        except (KeyError, TypeError) as problem:
            raise self._lacking(f"usable head ({problem!r})") from problem

    @property
    def fingerprint(self) -> str:
        """Names the exported weights; every block carries it too."""
        return str(self._field("fingerprint"))

    @property
    def precision(self) -> str:
        """The number format of the exported weights."""
        return str(self._field("precision"))

    @property
    def architecture(self) -> str:
        """The class of the model that was exported, such as `BertModel`."""
        return str(self._field("architecture"))

    @property
    def pooling(self) -> Pooling:
        """How the exported model pools."""
        return Pooling(tuple(self._field("pooling", "modes")), self._field("pooling", "include_prompt"))

    @property
    def reading(self) -> dict[str, Any]:
        """How the exported model reads texts: what `Reader` is given besides its tokenizer."""
        self._field("reader", "max_tokens")
        reading = self._field("reader")
        unknown = [key for key in reading if key not in _READING]
        if unknown:
            raise self._lacking(f"known reader (it has {', '.join(unknown)})")
        return dict(reading)

    @property
    def files(self) -> dict[str, int]:
        """The size in bytes of each exported file."""
        return dict(self._field("files"))

    def _plus(self, **changed: Any) -> Manifest:
        return replace(self, fields={**self.fields, **changed})

    def _field(self, *keys: str) -> Any:
        value: Any = self.fields
        for key in keys:
            if not isinstance(value, Mapping) or value.get(key) is None:
                raise self._lacking(f"field {'.'.join(keys)!r}")
            value = value[key]
        return value

    def _lacking(self, what: str) -> FolderError:
        return FolderError(f"{self.folder / MANIFEST} has no {what}; copy, save or export the model again")


def _cuts_within(full: Cut, fitted: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The entries of cuts that were fitted which fit inside `full`."""
    return [entry for entry in fitted if Cut.parse(entry["cut"]).fits(full)]


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
