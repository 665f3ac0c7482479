"""`export`: an encoder as blocks that run without torch, as one ONNX graph, or for sentence-transformers.

Before the folder appears, the export is compared with torch on real sentences of many lengths, at every depth: beyond
the bound it is refused and nothing is written.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from demitasse._version import __version__
from demitasse.arguments import choice, flag, path
from demitasse.cut import Cut
from demitasse.encoding.block_encoder import open_blocks
from demitasse.encoding.block_files import FINGERPRINT, SPACE, TOKENIZER, names_at
from demitasse.encoding.checked_encoder import checked_encoder
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.manifest import Manifest, own_files
from demitasse.encoding.ort_sessions import Values, run_model
from demitasse.encoding.precision import EXPORT_FORMATS
from demitasse.encoding.teacher_space import written
from demitasse.encoding.text_checks import checked, text_series
from demitasse.encoding.vectors import Vectors
from demitasse.errors import BackboneError, DataError, FolderError, reason
from demitasse.exporting.graphs import block_graphs, whole_graph
from demitasse.exporting.int8 import quantized
from demitasse.host.atomic import new_folder
from demitasse.host.bundled import corpus
from demitasse.host.progress import Advance, progress_bar
from demitasse.host.replacing import check_replaceable
from demitasse.torch_model.torch_encoder import TorchEncoder

FP32_BOUND = 1e-4  # maximum difference of any number in any vector
INT8_BOUND = 0.98  # minimum mean cosine at any depth
CHECKED = 64  # sentences for the comparison; the others calibrate int8
LEAST_SENTENCES = 2 * CHECKED


@dataclass(frozen=True)
class Exported:
    """What an export wrote and how it compares with torch."""

    folder: Path
    format: str
    cut: Cut
    max_difference: float
    mean_cosine: dict[int, float]  # by depth
    bytes: int

    def __str__(self) -> str:
        worst = min(self.mean_cosine.values())
        return (
            f"{self.folder}: {self.cut} as {self.format}, {self.bytes / 1e6:.1f} MB; against torch: "
            f"largest difference {self.max_difference:.1e}, mean cosine at least {worst:.5f}"
        )


def export(
    encoder: Encoder,
    out: str | Path,
    *,
    format: str = "blocks-int8",
    sentences: Iterable[str] | None = None,
    progress: bool | None = None,
    force: bool = False,
) -> Exported:
    """Write `encoder` to the folder `out` in one of the formats, completely or not at all.

    - `blocks`, `blocks-int8`: one graph for the embeddings, each layer and each exit. `demitasse.load` opens it
      without torch, at any cut; int8 is smaller and faster.
    - `onnx`, `onnx-int8`: one graph of this encoder's cut, from `input_ids` and `attention_mask` to unit-length
      vectors, for other programs.
    - `sentence-transformers`: what `save` writes.

    `sentences`, of the kind you will encode, are used to calibrate int8 and to compare with torch; without them, the
    sentences that come with demitasse are. A folder that has files of yours in it, or that `encoder` was loaded from,
    is refused; with `force` the model's files in it are replaced, and yours are kept.

    >>> export(encoder.cut(layers=1), out, format="blocks").max_difference < 1e-4
    True
    """
    return export_traced(encoder, out, None, format=format, sentences=sentences, progress=progress, force=force)


def export_traced(  # noqa: PLR0913 - those of export, and one
    encoder: Encoder,
    out: str | Path,
    traced: Path | None,
    *,
    format: str,
    sentences: Iterable[str] | None = None,
    progress: bool | None = None,
    force: bool = False,
) -> Exported:
    """What `export` does; `traced`, a folder of fp32 blocks of the same encoder, saves tracing it again."""
    choice("format", format, [*EXPORT_FORMATS])
    checked_encoder(encoder)
    out, force = path("out", out), flag("force", force)
    if not isinstance(encoder, TorchEncoder):
        raise DataError("an encoder of blocks cannot be exported again; load the model it was exported from")
    if format == "sentence-transformers":
        encoder.save(out, force=force)  # which does its own comparison
        depths = {encoder.full.layers: 1.0}
        return Exported(out, format, encoder.full, 0.0, depths, _size(out))
    check_replaceable(out, own_files, encoder.folder, force=force)  # before the sentences are read
    encoder.check_weights()
    _check_tokenizer(encoder)
    if not format.startswith("blocks"):
        _check_prompts(encoder)
    checks, calibration = _split(corpus() if sentences is None else list(checked(text_series(sentences))))
    precision, as_blocks = "int8" if format.endswith("int8") else "fp32", format.startswith("blocks")
    feeds = list(_unpadded(encoder, calibration)) if precision == "int8" else []
    graphs, steps = (_blocks, 2 * len(names_at(encoder.full.layers))) if as_blocks else (_whole, 2)
    with new_folder(out, own_files, encoder.folder, force=force) as aside:
        manifest = Manifest.of_export(aside, encoder, format.removesuffix("-int8"), precision)
        with progress_bar("exporting", steps, show=progress) as advance:
            for name, graph in graphs(encoder, traced, feeds, advance):
                _write_graph(graph, aside / f"{name}.onnx", manifest.fingerprint)
                advance(1)
        _write_tokenizer(encoder, aside)
        if encoder.teacher_space is not None:
            (aside / SPACE).write_bytes(written(encoder.teacher_space))
        manifest = manifest.with_files()
        vectors = _blocks_vectors(encoder, manifest, checks) if as_blocks else _whole_vectors(encoder, aside, checks)
        difference, cosines = _compared(vectors, checks, encoder, precision)
        manifest.with_comparison(len(checks), difference, cosines).write()
    return Exported(out, format, encoder.full, difference, cosines, _size(out))


def _blocks(
    encoder: TorchEncoder, traced: Path | None, feeds: list[Values], advance: Advance
) -> Iterator[tuple[str, onnx.ModelProto]]:
    """Each block by name; in int8 if there are `feeds` to calibrate it on."""
    made: dict[str, onnx.ModelProto] = {}
    names = names_at(encoder.full.layers)
    for name, graph in block_graphs(encoder) if traced is None else _read_graphs(traced, names):
        made[name] = graph
        advance(1)
    for name in names:
        graph = made.pop(name)
        if not feeds or name.startswith("exit"):  # exits stay in fp32: they are small, and come last
            yield name, graph
            continue
        yield name, quantized(graph, feeds)
        feeds = list(run_model(graph, feeds))
        for values in feeds:
            values["hidden"] = values.pop("next_hidden", values["hidden"])


def _read_graphs(folder: Path, names: Iterable[str]) -> Iterator[tuple[str, onnx.ModelProto]]:
    return ((name, onnx.load(folder / f"{name}.onnx")) for name in names)


def _whole(
    encoder: TorchEncoder, _: Path | None, feeds: list[Values], advance: Advance
) -> Iterator[tuple[str, onnx.ModelProto]]:
    """The one graph; in int8 if there are `feeds` to calibrate it on."""
    graph = whole_graph(encoder)
    advance(1)
    yield "model", quantized(graph, feeds) if feeds else graph


def _write_graph(graph: onnx.ModelProto, path: Path, name: str) -> None:
    onnx.helper.set_model_props(graph, {FINGERPRINT: name})
    graph.producer_name, graph.producer_version = "demitasse", __version__
    del graph.graph.value_info[:]
    for node in graph.graph.node:
        del node.metadata_props[:]  # the lines of Python source it comes from
        node.doc_string = ""
    try:
        onnx.checker.check_model(graph)
        path.write_bytes(graph.SerializeToString())
    except ValueError as problem:  # protobuf's limit
        raise FolderError(
            f"{path.name} would be larger than 2 GB, which an ONNX file cannot be; use the sentence-transformers format"
        ) from problem


def _write_tokenizer(encoder: TorchEncoder, folder: Path) -> None:
    # With truncation enabled, so that any program that opens it truncates where this encoder does.
    tokenizer = copy.deepcopy(encoder.reader.source.backend_tokenizer)
    tokenizer.no_padding()
    tokenizer.enable_truncation(encoder.reader.max_tokens, direction=encoder.reader.source.truncation_side)
    tokenizer.save(str(folder / TOKENIZER))


def _check_tokenizer(encoder: TorchEncoder) -> None:
    if getattr(encoder.reader.source, "backend_tokenizer", None) is None:
        raise FolderError(
            f"the tokenizer of this {encoder.architecture} has no tokenizer.json form, so it cannot be exported; "
            "use the sentence-transformers format"
        )


def _check_prompts(encoder: TorchEncoder) -> None:
    if not encoder.pooling.include_prompt and any(encoder.reader.prompts.values()):
        raise FolderError(
            f"this {encoder.architecture} leaves its prompts out of pooling (include_prompt is false), and one graph "
            "is not told which tokens they are; use the blocks or the sentence-transformers format"
        )


def _split(sentences: list[str]) -> tuple[list[str], list[str]]:
    """Sentences to compare on and sentences to calibrate on; some of both also joined into longer texts."""
    if len(sentences) < LEAST_SENTENCES:
        raise DataError(f"{len(sentences)} sentences are too few to check an export; give at least {LEAST_SENTENCES}")
    every = max(2, len(sentences) // CHECKED)
    checks = sentences[::every][:CHECKED]
    compared = set(checks)
    calibration = [sentence for sentence in sentences if sentence not in compared]
    return [*checks, "", *_joined(checks)], [*calibration, *_joined(calibration)]


def _joined(sentences: Sequence[str]) -> Iterator[str]:
    """Runs of 2, 4, 8, … sentences, some of each."""
    for count in (2, 4, 8, 16, 32):
        for start in range(0, min(len(sentences), 8 * count), count):
            yield " ".join(sentences[start : start + count])


def _unpadded(encoder: TorchEncoder, texts: Sequence[str]) -> Iterator[Values]:
    """Batches of texts with the same number of tokens: padding would widen the scales for nothing."""
    packed = encoder.reader.read(texts)
    for length in np.unique(packed.lengths):
        batch = encoder.reader.padded(packed, np.flatnonzero(packed.lengths == length)[:64].tolist())
        yield {"input_ids": batch.ids, "attention_mask": batch.mask}


def _blocks_vectors(encoder: TorchEncoder, manifest: Manifest, texts: Sequence[str]) -> dict[Cut, Vectors]:
    blocks = open_blocks(manifest)
    return blocks.encode_cuts(texts, [Cut(depth, encoder.dims) for depth in range(encoder.full.layers + 1)])


def _whole_vectors(encoder: TorchEncoder, folder: Path, texts: Sequence[str]) -> dict[Cut, Vectors]:
    packed = encoder.reader.read(texts, encoder.reader.prefix())
    vectors = np.empty((len(packed), encoder.dims), np.float32)
    order = sorted(range(len(packed)), key=lambda index: int(packed.lengths[index]))
    batches = [order[start : start + 8] for start in range(0, len(order), 8)]
    padded = [encoder.reader.padded(packed, batch) for batch in batches]
    feeds = [{"input_ids": batch.ids, "attention_mask": batch.mask} for batch in padded]
    try:
        for batch, values in zip(batches, run_model(onnx.load(folder / "model.onnx"), feeds), strict=True):
            vectors[batch] = values["sentence_embedding"]
    except Exception as problem:  # onnxruntime raises its own, which all derive from this one alone
        raise BackboneError(
            f"onnxruntime cannot run the exported {encoder.architecture} ({reason(problem)}), so nothing was written; "
            "export blocks instead"
        ) from problem
    return {encoder.full: vectors}


def _compared(
    vectors: Mapping[Cut, Vectors], texts: Sequence[str], encoder: TorchEncoder, precision: str
) -> tuple[float, dict[int, float]]:
    """The largest difference from torch, and the mean cosine to it at each depth."""
    exact = encoder.encode_cuts(texts, list(vectors), progress=False)
    difference = max(float(np.abs(vectors[cut] - exact[cut]).max()) for cut in vectors)
    cosines = {cut.layers: float((vectors[cut] * exact[cut]).sum(1).mean()) for cut in vectors}
    if precision == "fp32" and not difference <= FP32_BOUND:
        raise FolderError(
            f"the exported {encoder.architecture} differs from torch by {difference:.1e} (at most {FP32_BOUND:.0e} is "
            "allowed), so nothing was written; this architecture does more between its layers than pass states on"
        )
    depth, worst = min(cosines.items(), key=lambda item: item[1])
    if not worst >= INT8_BOUND:
        raise FolderError(
            f"in int8 the {encoder.architecture} has a mean cosine of {worst:.4f} to torch at depth {depth} (at least "
            f"{INT8_BOUND} is needed), so nothing was written; export it in fp32, or give sentences of your own kind"
        )
    return difference, cosines


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
