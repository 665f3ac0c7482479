"""A folder of blocks: ONNX graphs that are opened only when a cut reaches them.

    embeddings.onnx, layer_1.onnx …   run one after another, as far as the cut goes (exporting/graphs.py says what
                                      they pass on)
    exit_0.onnx, exit_1.onnx …        from the token states at a depth to the embedding
    tokenizer.json                    the tokenizer
    space.bin                         the map from the teachers' vectors, if the model was aligned with any
    demitasse.json                    what the folder is (see manifest.py)

Every block carries the fingerprint of the weights, so that blocks of two models are never mixed.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field

import onnxruntime as ort

from demitasse.encoding.listed_files import ListedFiles
from demitasse.encoding.ort_sessions import Values, open_session, run
from demitasse.errors import DeviceError, FolderError, reason

FINGERPRINT = "demitasse.fingerprint"
TOKENIZER = "tokenizer.json"
SPACE = "space.bin"


def names_at(depth: int) -> list[str]:
    """The names of the blocks of a model of `depth` layers."""
    layers = [f"layer_{layer}" for layer in range(1, depth + 1)]
    return ["embeddings", *layers, *(f"exit_{exit_}" for exit_ in range(depth + 1))]


def files_at(depth: int) -> list[str]:
    """The files that a model of `depth` layers needs, besides its manifest."""
    return [TOKENIZER, *(f"{name}.onnx" for name in names_at(depth))]


@dataclass(frozen=True, eq=False)
class Blocks:
    """The blocks of a folder, each opened when it is first run and then reused."""

    files: ListedFiles
    fingerprint: str
    provider: str
    _open: dict[str, ort.InferenceSession] = field(default_factory=dict)
    _locks: dict[int, threading.Lock] = field(default_factory=dict)  # by process: one that is held stays so in a fork

    @property
    def opened(self) -> list[str]:
        """The blocks that have been run so far."""
        return sorted(self._open)

    def run(self, name: str, values: Values, wanted: str) -> Values:
        """The outputs of the block `name`, `wanted` among them, given those of `values` that it takes."""
        session = self._open.get(name)
        if session is None:
            # Or two threads would both open it, and one copy would waste memory.
            with self._locks.setdefault(os.getpid(), threading.Lock()):
                session = self._open.get(name) or self._open_session(name)
                self._open[name] = session
        try:
            outputs = run(session, values)
        except Exception as problem:  # onnxruntime has an error class for every occasion
            raise self._failed(name, problem) from problem
        if wanted not in outputs:
            path = self.files.folder / f"{name}.onnx"
            raise FolderError(f"{path} gives no {wanted}, so it is no block of a model; copy or export it again")
        return outputs

    def _failed(self, name: str, problem: Exception) -> FolderError | DeviceError:
        path, why = self.files.folder / f"{name}.onnx", reason(problem)
        if "alloc" in str(problem).lower():
            return DeviceError(f"{path} ran out of memory ({why}); give fewer or shorter texts at a time")
        return FolderError(f"{path} cannot be run ({why}); copy or export the model again")

    def check(self, depth: int) -> None:
        """Refuse a folder where a file that `depth` layers need is missing or incomplete."""
        sizes, folder = self.files.sizes, self.files.folder
        if depth > len(sizes):  # before names are made of any number that a manifest may say
            raise FolderError(
                f"{folder} says {depth} layers and lists {len(sizes)} files; copy or export the model again"
            )
        for name in files_at(depth):
            self.files.check_size(name)

    def _open_session(self, name: str) -> ort.InferenceSession:
        path, content = self.files.folder / f"{name}.onnx", self.files.read(f"{name}.onnx")
        try:
            session = open_session(content, self.provider)
        except Exception as problem:  # onnxruntime has an error class for every occasion
            raise FolderError(
                f"{path} cannot be opened ({reason(problem)}); copy or export the model again"
            ) from problem
        carried = session.get_modelmeta().custom_metadata_map.get(FINGERPRINT)
        if carried != self.fingerprint:
            raise FolderError(
                f"{path} belongs to another model (its fingerprint begins with {_on_one_line(carried or 'missing')}, "
                f"the folder's with {_on_one_line(self.fingerprint)}); copy or export the model again"
            )
        return session


def _on_one_line(text: str) -> str:
    """The beginning of a fingerprint, or of what a damaged file has in its place, without line breaks."""
    return ascii(text[:16])[1:-1]
