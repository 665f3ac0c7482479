"""`index.json`: whose vectors an index holds, written once; and the guard, which refuses all others.

    schema, kind, demitasse     version of this format, "index", release that wrote it
    made                        a name of its own for each index
    cut                         the layers that the texts were encoded with, and the dims of the rows
    vectors                     how they are stored: int8
    space                       a fingerprint for each depth of the model (see encoding/spaces.py)
    tokenizer                   a fingerprint of how texts become tokens
    prompts, default_prompt     of the model
    model                       where to load it from: name, folder, precision, max_seq_length

Any depth of the same model may search, at any of its precisions, and any number of first dims; nothing else may.
"""

from __future__ import annotations

import secrets
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from demitasse._version import __version__
from demitasse.cut import Cut
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.loading import load
from demitasse.encoding.spaces import Space
from demitasse.errors import FolderError
from demitasse.host.atomic import new_file
from demitasse.host.bundled import BUILT_IN
from demitasse.host.fields import Fields
from demitasse.host.json_files import json_text, read_json

DESCRIPTION = "index.json"
SCHEMA = 1
_CURE = "copy the index again, or build it again"


@dataclass(frozen=True)
class Model:
    """Where the encoder of an index comes from."""

    name: str
    folder: str | None  # None: the built-in model, or one that was never in a folder
    built_in: bool
    precision: str
    max_seq_length: int

    @classmethod
    def of(cls, encoder: Encoder) -> Model:
        """Where `encoder` comes from."""
        built_in = encoder.folder == BUILT_IN
        folder = None if built_in or encoder.folder is None else str(Path(encoder.folder).absolute())
        return cls(encoder.name, folder, built_in, encoder.precision, encoder.max_seq_length)


@dataclass(frozen=True)
class Description:
    """What `index.json` says."""

    cut: Cut
    space: Space
    model: Model
    made: str = field(default="", compare=False)  # a name of its own for each index that was ever made

    @classmethod
    def of(cls, encoder: Encoder) -> Description:
        """The description of an index that `encoder` makes."""
        return cls(encoder.full, encoder.space, Model.of(encoder), secrets.token_hex(8))

    @classmethod
    def read(cls, folder: Path) -> Description:
        """The description of the index in `folder`."""
        path = folder / DESCRIPTION
        if not path.is_file():
            raise FolderError(
                f"{folder} has no {DESCRIPTION}, so it is not an index; build one: {build_command(folder)}"
            )
        fields = Fields(read_json(path), path, _CURE)
        if fields.has("kind") and fields.plain("kind") != "index":
            raise fields.problem("is not the description of an index")
        if not fields.has("schema") or fields.plain("schema") != SCHEMA:
            raise fields.problem(f"is not of schema {SCHEMA}, which this demitasse {__version__} reads")
        fields.choice("vectors", ("int8",))
        cut, depths = fields.cut("cut"), tuple(fields.texts("space"))
        if len(depths) != cut.layers + 1:
            raise fields.problem(f"has {len(depths)} fingerprints for {cut.layers} layers and none")
        default = fields.text("default_prompt") if fields.has("default_prompt") else None
        space = Space(depths, fields.text("tokenizer"), fields.text_of("prompts"), default)
        model = fields.inside("model")
        name, place = model.name("name"), model.name("folder") if model.has("folder") else None
        precision, tokens = model.text("precision"), model.whole("max_seq_length", least=1)
        return cls(cut, space, Model(name, place, model.flag("built_in"), precision, tokens), fields.text("made"))

    def write(self, folder: Path) -> None:
        """Write it into `folder`."""
        with new_file(folder / DESCRIPTION) as file:
            file.write(json_text(self.as_plain()).encode())

    def as_plain(self) -> dict[str, Any]:
        """The fields of the file."""
        return {
            "schema": SCHEMA,
            "kind": "index",
            "demitasse": __version__,
            "made": self.made,
            "cut": str(self.cut),
            "vectors": "int8",
            "space": list(self.space.depths),
            "tokenizer": self.space.tokenizer,
            "prompts": dict(self.space.prompts),
            "default_prompt": self.space.default_prompt,
            "model": {
                "name": self.model.name,
                "folder": self.model.folder,
                "built_in": self.model.built_in,
                "precision": self.model.precision,
                "max_seq_length": self.model.max_seq_length,
            },
        }

    def check(self, encoder: Encoder, folder: Path) -> None:
        """Refuse an encoder whose vectors cannot be compared with those of the index in `folder`."""
        difference = self.space.difference(encoder.space)
        if difference is not None:
            model = Model.of(encoder)
            name = "the built-in model" if model.built_in else model.name
            raise FolderError(
                f"{folder} holds vectors of {self.model.name}, and {name} is another model ({difference} differ"
                f"{'s' if difference == 'its tokenizer' else ''}); load that one, or index the texts again: "
                f"{rebuild_command(folder, model)}"
            )

    def load(self, folder: Path, device: str | None = None) -> Encoder:
        """The encoder that the index was made with."""
        model = self.model
        if not model.built_in and (model.folder is None or not Path(model.folder).is_dir()):
            where = "it was never saved" if model.folder is None else f"there is no folder {model.folder}"
            raise FolderError(
                f"{folder} was made with {model.name}, and {where}; give the model: Index.open(folder, encoder=…), "
                "--model in a shell"
            )
        encoder = load(None if model.built_in else model.folder, device=device)
        if model.max_seq_length >= encoder.max_seq_length:
            return encoder
        return encoder._limited_to(model.max_seq_length)


def rebuild_command(folder: Path, model: Model | None = None) -> str:
    """The command that encodes the texts of an index again."""
    option = "" if model is None or model.built_in else f" --model {shlex.quote(model.folder or model.name)}"
    return f"demitasse index rebuild {shlex.quote(str(folder))}{option}"


def build_command(folder: Path) -> str:
    """The command that makes an index."""
    return f"demitasse index build texts.jsonl --out {shlex.quote(str(folder))}"
