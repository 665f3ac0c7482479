"""`demitasse.json`: what a model folder says about itself. The one file that knows its fields.

    schema, demitasse       version of this format, release that wrote it
    full, exits             largest cut the folder gives, depths that have an exit of their own
    cuts, objective, data, source
                            where the model comes from, what was fitted or trained

A model on torch adds `head` (the steps that depths without an exit use) and `matryoshka_dimensions` (the dims worth
offering). An export adds `kind` ("blocks" or "onnx"), `fingerprint`, `space` (which vectors its own may be compared
with), `precision`, `architecture`, `pooling`, `reader` (how texts are read) and `against_torch` (how the export
compared with torch).

Both have `teacher_space` where the model shares one with teachers: their names, fingerprints, weights and prompts. Both
have `files` (the bytes of every file of the folder but the manifest) and `sha256` (the hash of each). Folders written
before there were hashes are checked by what they have.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from demitasse._version import __version__
from demitasse.cut import Cut, usual_dims
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.fingerprints import fingerprint
from demitasse.encoding.pooling import Pooling
from demitasse.encoding.precision import PRECISIONS
from demitasse.encoding.teacher_space import SpaceTeacher, teachers_in
from demitasse.errors import FolderError
from demitasse.host.fields import Fields
from demitasse.host.json_files import read_json, write_json

MANIFEST = "demitasse.json"
SCHEMA = 1
WEB_KIND = "web"  # of a folder for browsers (exporting/web.py)
RECORD = ("cuts", "objective", "data", "source")  # copied from folder to folder
_READING = ("max_tokens", "prompts", "default_prompt", "lowercase", "pad_id", "empty_id")
_MOST_TOKENS = 1 << 30  # of a text, and in a vocabulary


@dataclass(frozen=True, eq=False)
class Manifest:
    """The manifest of `folder`; `fields` are what its file holds, in order.

    What every call of `encode` asks for is checked and read once.
    """

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
        if isinstance(schema, bool) or schema != SCHEMA:
            raise FolderError(
                f"{path} has schema {schema!r:.40}, and this demitasse {__version__} reads schema {SCHEMA}; "
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
            **_space(encoder),
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
            "fingerprint": fingerprint([precision, encoder.fingerprint]),
            "space": list(encoder.space.depths),
            "precision": precision,
            "full": str(encoder.full),
            "architecture": encoder.architecture,
            "pooling": {"modes": list(pooling.modes), "include_prompt": pooling.include_prompt},
            "reader": {key: _plain(getattr(encoder.reader, key)) for key in _READING},
            "exits": encoder.exit_depths,
            **{key: encoder.record.get(key) for key in RECORD},
            **_space(encoder),
        }
        return cls(folder, fields)

    def with_files(self) -> Manifest:
        """The same with the size and the hash of every file that its folder has now."""
        paths = {path.relative_to(self.folder).as_posix(): path for path in self.folder.rglob("*") if path.is_file()}
        paths.pop(MANIFEST, None)
        names = sorted(paths)
        return self._plus(
            files={name: paths[name].stat().st_size for name in names},
            sha256={name: sha256_of(paths[name]) for name in names},
        )

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
            "reader": {**self.fields["reader"], "max_tokens": max_tokens},
        }
        if self._fields.has("against_torch"):
            compared = self._fields.inside("against_torch")
            depths = {str(depth) for depth in range(full.layers + 1)}
            kept = {depth: cosine for depth, cosine in compared.number_of("mean_cosine").items() if depth in depths}
            changed["against_torch"] = {**self.fields["against_torch"], "mean_cosine": kept}
        return replace(self._plus(**changed), folder=folder)

    def check(self) -> None:
        """Refuse a manifest with a field that cannot be used, at once and not when it is first needed."""
        _ = self.full, self.exits, self.record, self.sha256, self.teachers
        if self.kind is None:
            _ = self.head, self.files if self.lists_files else {}
        else:
            _ = self.fingerprint, self.space, self.precision, self.architecture, self.pooling, self.reading, self.files

    def write(self) -> None:
        """Write it into its folder."""
        write_json(self.folder / MANIFEST, dict(self.fields))

    @property
    def kind(self) -> str | None:
        """`blocks` or `onnx` for an export; `None` for a model on torch."""
        if self.fields.get("kind") == WEB_KIND:
            raise FolderError(
                f"{self.folder} is a web folder, which browsers load; load the model it was exported from"
            )
        return self._fields.choice("kind", ("blocks", "onnx")) if self._fields.has("kind") else None

    @cached_property
    def full(self) -> Cut:
        """The largest cut the folder gives."""
        return self._fields.cut("full")

    @cached_property
    def exits(self) -> list[int]:
        """The depths that have an exit of their own."""
        return self._fields.wholes("exits", most=self.full.layers)

    @cached_property
    def record(self) -> dict[str, Any]:
        """Where the model comes from, what was fitted or trained; without what is unknown."""
        for name in ("objective", "source"):
            if self._fields.has(name):
                self._fields.inside(name)
        if self._fields.has("source") and self._fields.inside("source").has("name"):
            self._fields.inside("source").name("name")
        for entry in self._fields.each("cuts") if self._fields.has("cuts") else ():
            entry.cut("cut")
            if entry.has("held_out"):
                entry.number_of("held_out")
        return {key: self.fields[key] for key in RECORD if self.fields.get(key)}

    @property
    def teachers(self) -> tuple[SpaceTeacher, ...]:
        """The teachers whose space the model shares; none if it has no such space."""
        return teachers_in(self._fields.inside("teacher_space")) if self._fields.has("teacher_space") else ()

    @property
    def head(self) -> list[str | None]:
        """The steps that depths without an exit use: the activation of each Dense, `None` for a Normalize."""
        steps = self._fields.each("head")
        return [
            None if step.choice("step", ("normalize", "dense")) == "normalize" else step.text("activation")
            for step in steps
        ]

    @property
    def fingerprint(self) -> str:
        """Names the exported weights; every block carries it too."""
        return self._fields.text("fingerprint")

    @property
    def space(self) -> list[str]:
        """A fingerprint for each depth of the model that was exported; none in an export that does not say."""
        return self._fields.texts("space") if self._fields.has("space") else []

    @cached_property
    def precision(self) -> str:
        """The number format of the exported weights."""
        return self._fields.choice("precision", PRECISIONS)

    @cached_property
    def architecture(self) -> str:
        """The class of the model that was exported, such as `BertModel`."""
        return self._fields.text("architecture")

    @property
    def pooling(self) -> Pooling:
        """How the exported model pools."""
        pooling = self._fields.inside("pooling")
        return Pooling(tuple(pooling.texts("modes")), pooling.flag("include_prompt"))

    @property
    def reading(self) -> dict[str, Any]:
        """How the exported model reads texts: what `Reader` is given besides its tokenizer."""
        reader = self._fields.inside("reader")
        unknown = [name for name in reader.names() if name not in _READING]
        if unknown:
            raise reader.problem(f"has a reader with {', '.join(unknown)!a:.60}, which this demitasse does not know")
        reading: dict[str, Any] = {"max_tokens": reader.whole("max_tokens", least=1, most=_MOST_TOKENS)}
        for name in ("pad_id", "empty_id"):
            if reader.has(name):
                reading[name] = reader.whole(name, most=_MOST_TOKENS)
        if reader.has("prompts"):
            reading["prompts"] = reader.text_of("prompts")
        if reader.has("default_prompt"):
            reading["default_prompt"] = reader.text("default_prompt")
        if reader.has("lowercase"):
            reading["lowercase"] = reader.flag("lowercase")
        return reading

    @property
    def lists_files(self) -> bool:
        """Whether it says which files the folder has; that of a model on torch did not always."""
        return self._fields.has("files")

    @property
    def files(self) -> dict[str, int]:
        """The size in bytes of each file."""
        return self._fields.whole_of("files")

    @property
    def sha256(self) -> dict[str, str]:
        """The hash of each file; none in a folder written before there were hashes."""
        return self._fields.text_of("sha256") if self._fields.has("sha256") else {}

    @property
    def _fields(self) -> Fields:
        return Fields(dict(self.fields), self.folder / MANIFEST, "copy, save or export the model again")

    def _plus(self, **changed: Any) -> Manifest:
        return replace(self, fields={**self.fields, **changed})


def own_files(folder: Path) -> set[str]:
    """The files of `folder` that demitasse wrote, as relative POSIX paths; none if it is not a demitasse folder."""
    try:
        fields = json.loads((folder / MANIFEST).read_bytes())
    except OSError:
        return set()
    except (ValueError, RecursionError):
        fields = None
    listed = fields.get("files") if isinstance(fields, dict) else None
    return {MANIFEST, *(listed if isinstance(listed, dict) else ())}


def sha256_of(path: Path) -> str:
    """The hash of a file, which is read piece by piece."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _cuts_within(full: Cut, fitted: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The entries of cuts that were fitted which fit inside `full`."""
    return [entry for entry in fitted if Cut.parse(entry["cut"]).fits(full)]


def _space(encoder: Encoder) -> dict[str, Any]:
    return {} if encoder.teacher_space is None else {"teacher_space": encoder.teacher_space.described()}


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
