"""A web folder: what a browser needs to encode and search without a server, for any host of static files.

    demitasse.json          what the folder is, with the size and the hash of every other file
    model/*.packed          the blocks and the tokenizer, as `demitasse.load` opens them, packed with gzip
    runtime/                demitasse.js, its worker, and onnxruntime for WebAssembly: the part that blocks of a BERT
                            need, and the whole, which is fetched where that part is not enough
    index/                  index.json, vectors.i8.packed, texts_0.json.packed …, if an index was given
    index.html and others   the page, if it was asked for

Files end in .packed and not in .gz, which some servers unpack by themselves: hashes are of what is sent. Sources of the
JavaScript are in web/ of the repository, and what is built from them ships with demitasse.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.arguments import flag, path
from demitasse.cut import Cut
from demitasse.encoding.block_encoder import BlockEncoder
from demitasse.encoding.block_files import TOKENIZER
from demitasse.encoding.checked_encoder import checked_encoder
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.loading import load
from demitasse.encoding.manifest import WEB_KIND, Manifest, own_files, sha256_of
from demitasse.encoding.spaces import Space
from demitasse.errors import DataError
from demitasse.exporting.unread_words import unread_words, with_zeros
from demitasse.extras import EXPORT, need
from demitasse.host.atomic import new_folder
from demitasse.host.bundled import WEB
from demitasse.host.json_files import write_json
from demitasse.host.replacing import check_replaceable

SCHEMA = 1
TEXTS_PER_FILE = 1000  # a search fetches the files of the texts it found
TOKENIZERS = ("WordPiece", "BPE", "Unigram")  # of which WordPiece was compared with Python's, character by character
PAGE = ("index.html", "page.css", "page.js", "sw.js", "app.webmanifest", "icon.svg", "icon-192.png", "icon-512.png")
RUNTIME = (
    *("demitasse.js", "worker.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-small.wasm.packed"),
    *("ort-wasm-simd-threaded.wasm.packed", "licenses.txt"),
)


# Not fetched, unless a model has operators that the small runtime leaves out.
ASIDE = ("runtime/ort-wasm-simd-threaded.wasm.packed", "runtime/licenses.txt")


@dataclass(frozen=True, eq=False)
class WebIndex:
    """What a web folder takes of an index: texts with their ids, and their vectors as they are stored."""

    cut: Cut
    space: Space
    ids: Sequence[str]
    texts: Sequence[str]
    vectors: npt.NDArray[np.int8]  # (texts, dims)


@dataclass(frozen=True)
class WebFolder:
    """What was written: the bytes that are sent to run each number of layers, and those of the runtime."""

    folder: Path
    cut: Cut
    model_bytes: dict[int, int]  # by layers
    runtime_bytes: int
    index_bytes: int
    texts: int

    def __str__(self) -> str:
        sizes = ", ".join(f"{layers}: {count / 1e6:.1f}" for layers, count in self.model_bytes.items())
        index = f"; an index of {self.texts:,} texts, {self.index_bytes / 1e6:.1f} MB" if self.texts else ""
        return (
            f"{self.folder}: {self.cut} for browsers; MB to fetch by layers: {sizes}; "
            f"runtime {self.runtime_bytes / 1e6:.1f} MB{index}"
        )


def export_web(
    encoder: Encoder, out: str | Path, *, index: WebIndex | None = None, page: bool = False, force: bool = False
) -> WebFolder:
    """Write `encoder` to the folder `out` for browsers, with an index and the page if asked, completely or not at all.

    Blocks are taken as they are; a model on torch is exported as int8 blocks first. A folder that has files of yours in
    it is refused; with `force` demitasse's own files in it are replaced, and yours are kept.

    >>> small = load().cut(layers=1)
    >>> written = export_web(small, out)
    >>> sorted(written.model_bytes), written.runtime_bytes < 2e6
    ([0, 1], True)
    """
    checked_encoder(encoder)
    out, force, page = path("out", out), flag("force", force), flag("page", page)
    check_replaceable(out, own_files, encoder.folder, force=force)
    if not isinstance(encoder, BlockEncoder):
        return _from_torch(encoder, out, index=index, page=page, force=force)
    _check_tokenizer(encoder)
    if index is not None:
        _check_space(encoder, index)
    with new_folder(out, own_files, encoder.folder, force=force) as aside:
        _write_model(encoder, aside / "model")
        _copy(RUNTIME, WEB / "runtime", aside / "runtime")
        if page:
            _copy(PAGE, WEB / "page", aside)
        if index is not None:
            _write_index(index, aside / "index")
        manifest = Manifest(aside, _fields(encoder)).with_files()
        manifest.write()
    return _summary(out, encoder, manifest.files, index)


def _from_torch(encoder: Encoder, out: Path, *, index: WebIndex | None, page: bool, force: bool) -> WebFolder:
    need("exporting a model on torch", EXPORT)
    from demitasse.exporting.export import export

    with tempfile.TemporaryDirectory() as folder:
        blocks = Path(folder) / "blocks"
        export(encoder, blocks, format="blocks-int8")
        return export_web(load(str(blocks)), out, index=index, page=page, force=force)


def _check_tokenizer(encoder: BlockEncoder) -> None:
    kind = json.loads(encoder.blocks.files.read(TOKENIZER))["model"].get("type", "unknown")
    if kind not in TOKENIZERS:
        raise DataError(
            f"the tokenizer of this model is of the kind {kind!r:.40}, which JavaScript's tokenizer does not know; "
            f"a web folder takes {', '.join(TOKENIZERS)}"
        )


def _check_space(encoder: BlockEncoder, index: WebIndex) -> None:
    difference = index.space.difference(encoder.space)
    if difference is not None:
        raise DataError(
            f"the index was made by another model than the one to export ({difference} differs), so its vectors cannot "
            "be compared; give the model that made it"
        )


def _fields(encoder: BlockEncoder) -> dict[str, Any]:
    """The manifest but for its files: that of the blocks, as a browser reads it."""
    narrowed = encoder.manifest.narrowed(encoder.full, encoder.folder, encoder.max_seq_length).fields
    fields = {name: value for name, value in narrowed.items() if name not in ("files", "sha256", "teacher_space")}
    return {**fields, "kind": WEB_KIND, "space": _plain_space(encoder.space)}


def _plain_space(space: Space) -> dict[str, Any]:
    return {name: value for name, value in asdict(space).items() if name in ("depths", "tokenizer")}


def _write_model(encoder: BlockEncoder, folder: Path) -> None:
    folder.mkdir()
    names = [TOKENIZER, *(f"{block}.onnx" for depth in range(encoder.layers + 1) for block in _blocks(depth))]
    for name in dict.fromkeys(names):
        content = encoder.blocks.files.read(name)
        if name == "embeddings.onnx":
            reader = encoder.reader
            unread = unread_words(encoder.blocks.files.read(TOKENIZER), (reader.pad_id, reader.empty_id))
            content = with_zeros(content, unread)
        _write_packed(folder / name, content)


def _blocks(depth: int) -> list[str]:
    return ["embeddings", *(f"layer_{layer}" for layer in range(1, depth + 1)), f"exit_{depth}"]


def _write_index(index: WebIndex, folder: Path) -> None:
    folder.mkdir()
    _write_packed(folder / "vectors.i8", np.ascontiguousarray(index.vectors).tobytes())
    pairs = list(zip(index.ids, index.texts, strict=True))
    for number, start in enumerate(range(0, len(pairs), TEXTS_PER_FILE)):
        some = json.dumps(pairs[start : start + TEXTS_PER_FILE], ensure_ascii=False, separators=(",", ":"))
        _write_packed(folder / f"texts_{number}.json", some.encode())
    files = sorted(folder.iterdir())
    description = {
        "schema": SCHEMA,
        "kind": "web-index",
        "cut": str(index.cut),
        "count": len(pairs),
        "texts_per_file": TEXTS_PER_FILE,
        "space": _plain_space(index.space),
        "files": {file.name: file.stat().st_size for file in files},
        "sha256": {file.name: sha256_of(file) for file in files},
    }
    write_json(folder / "index.json", description)


def _write_packed(target: Path, content: bytes) -> None:
    # Without a time in it, so that the same content is the same file.
    target.with_name(f"{target.name}.packed").write_bytes(gzip.compress(content, 9, mtime=0))


def _copy(names: Sequence[str], source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for name in names:
        (target / name).write_bytes((source / name).read_bytes())


def _summary(out: Path, encoder: BlockEncoder, files: Mapping[str, int], index: WebIndex | None) -> WebFolder:
    def sent(names: Sequence[str]) -> int:
        return sum(files[f"model/{name}.packed"] for name in names)

    depths = range(encoder.layers + 1)
    return WebFolder(
        out,
        encoder.full,
        {depth: sent([TOKENIZER, *(f"{block}.onnx" for block in _blocks(depth))]) for depth in depths},
        sum(size for name, size in files.items() if name.startswith("runtime/") and name not in ASIDE),
        sum(size for name, size in files.items() if name.startswith("index/")),
        0 if index is None else len(index.ids),
    )
