"""`load`: a folder or a hub name to an encoder, with torch only where the folder needs it."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from demitasse.arguments import text
from demitasse.encoding.block_encoder import open_blocks
from demitasse.encoding.checked_encoder import checked_encoder
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.joint_encoder import JointEncoder
from demitasse.encoding.listed_files import is_replaced
from demitasse.encoding.manifest import Manifest
from demitasse.encoding.teacher_space import SpaceTeacher
from demitasse.errors import DataError, FolderError, shown
from demitasse.extras import TORCH, need
from demitasse.host.bundled import BUILT_IN
from demitasse.host.leftovers import is_moved_aside
from demitasse.host.machine import checked_threads

_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_HUB_FILES = ["*.json", "*.txt", "*.model", "*.safetensors", "*.onnx"]
_TRIES, _PAUSE = 50, 0.01  # to read a folder that another process replaces meanwhile; seconds
_NOT_DOWNLOADED = ["onnx/*", "openvino/*", "coreml/*", "*.bin", "*.pt", "*.pkl"]


def load(
    model: str | Path | None = None,
    *,
    device: str | None = None,
    dtype: str | None = None,
    max_seq_length: int | None = None,
    threads: int | None = None,
) -> Encoder:
    """The encoder in a folder or under a hub name; without a name, the built-in model.

    A folder of blocks (`demitasse export`, and the built-in model) runs on onnxruntime and needs no torch; `device`
    is then cpu unless you ask for cuda, coreml or dml. Demitasse folders, sentence-transformers folders (Transformer,
    Pooling, then Dense and Normalize) and plain transformers folders (mean pooling) run on torch: `device` is then the
    GPU if there is one, `dtype` is float32 unless you say otherwise, and weights are read from safetensors only.

    `max_seq_length` truncates texts at fewer tokens than the model takes. `threads` is how many cores one call uses,
    all of them if left out. For blocks it holds for this encoder alone, and 1 also means that no thread is started. On
    torch it is `torch.set_num_threads`, which holds for the whole process.

    >>> load().full
    Cut(layers=6, dims=384)
    >>> load(folder, device="cpu").full
    Cut(layers=3, dims=32)
    """
    for name, given in (("device", device), ("dtype", dtype)):
        if given is not None:
            text(name, given)
    count = None if threads is None else checked_threads(threads)
    encoder = _open(model, device, dtype)
    if max_seq_length is not None:
        encoder = encoder._limited_to(max_seq_length)
    return encoder if count is None else encoder._on_threads(count)


def load_teacher(
    encoder: Encoder, *teachers: str | Path, device: str | None = None, dtype: str | None = None
) -> Encoder:
    """The teachers that `encoder` was aligned with, as an encoder whose vectors lie in its space: the next size up.

    So documents that the teachers encode can be searched with queries that `encoder` encodes, at any cut. `teachers`
    are their folders or hub names, in the order in which `Aligned` was given them; without any, the names that the
    model has recorded. A single teacher on torch can be saved, cut in dims and exported like any encoder.

    >>> from demitasse import Aligned, TrainOptions, read_pairs, train
    >>> options = TrainOptions(steps=2, batch=16)
    >>> aligned = train(encoder, read_pairs(sentences), Aligned(teachers=str(folder)), out=out, options=options)
    >>> documents = load_teacher(aligned, folder, device="cpu").encode_document(["a ristretto", "a lungo"])
    >>> aligned.similarity(aligned.cut(layers=1).encode_query(["a small cup"]), documents).shape
    (1, 2)
    """
    space = checked_encoder(encoder).teacher_space
    if space is None:
        raise DataError(
            f"{encoder.name} was not aligned with teachers, so it shares no space with any; train it with Aligned"
        )
    given = teachers or tuple(teacher.name for teacher in space.teachers)
    if len(given) != len(space.teachers):
        names = ", ".join(teacher.name for teacher in space.teachers)
        raise DataError(f"{len(given)} teachers were given, and {encoder.name} has {len(space.teachers)}: {names}")
    parts = tuple(_teacher(one, known, device, dtype) for one, known in zip(given, space.teachers, strict=True))
    if len(parts) > 1 or parts[0].runtime != "torch":
        return JointEncoder(parts, space)
    from demitasse.torch_model.in_space import in_space
    from demitasse.torch_model.torch_encoder import TorchEncoder

    assert isinstance(parts[0], TorchEncoder)
    return in_space(parts[0], space)


def _teacher(given: str | Path, known: SpaceTeacher, device: str | None, dtype: str | None) -> Encoder:
    encoder = load(given, device=device)
    if encoder.fingerprint != known.fingerprint:
        raise FolderError(
            f"{given} is not the {known.name} that the model was aligned with (its fingerprint is "
            f"{encoder.fingerprint[:12]}…, not {known.fingerprint[:12]}…); give the folder or hub name of that one"
        )
    return encoder if dtype is None else load(given, device=device, dtype=dtype)


def _open(model: str | Path | None, device: str | None, dtype: str | None) -> Encoder:
    folder = folder_of(model)
    name = folder.name if Path(str(model)).exists() else str(model)
    for _ in range(_TRIES):
        manifest = Manifest.read(folder)
        try:
            encoder = _open_as_it_is(folder, manifest, device, dtype, name)
        except FolderError:
            if not (is_replaced(manifest, folder) or is_moved_aside(folder)):
                raise
        else:
            if not is_replaced(manifest, folder):
                return encoder
        time.sleep(_PAUSE)
    raise FolderError(f"{folder} is replaced again and again by another process; load it when that has ended")


def _open_as_it_is(
    folder: Path, manifest: Manifest | None, device: str | None, dtype: str | None, name: str
) -> Encoder:
    if manifest is not None and manifest.kind == "blocks":
        return open_blocks(manifest, device, dtype)
    if manifest is not None and manifest.kind == "onnx":
        raise FolderError(f"{folder} is one ONNX graph for other programs; export the model as blocks to load it here")
    need(f"loading {folder.name}, which is not a folder of blocks,", TORCH)
    from demitasse.torch_model.model_folder import read

    return read(folder, device, dtype, name)


def folder_of(model: str | Path | None) -> Path:
    """Where a model is on this disk: a folder, the download of a hub name, or the built-in model."""
    # Absolute, since blocks are opened when they are first needed, and the working directory may be another by then.
    return BUILT_IN if model is None else _local_folder(model).absolute()


def _local_folder(model: str | Path) -> Path:
    if not isinstance(model, (str, os.PathLike)):
        raise FolderError(f"model must be a folder or a hub name such as 'owner/model', not {shown(model)}")
    folder = Path(model)
    for _ in range(_TRIES):
        if str(model) and folder.is_dir():
            return folder
        if not (folder.name and is_moved_aside(folder)):
            break
        time.sleep(_PAUSE)
    if folder.is_file() or not _HUB_NAME.fullmatch(str(model)):
        raise FolderError(f"there is no folder {str(model)!r}; give a model folder or a hub name such as 'owner/model'")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(str(model), allow_patterns=_HUB_FILES, ignore_patterns=_NOT_DOWNLOADED))
    except Exception as problem:  # no network, no such model and no access each raise their own
        raise FolderError(
            f"there is no folder {str(model)!r} here, and no model of that name could be downloaded from the hub "
            f"({type(problem).__name__}); check the spelling and the network"
        ) from problem
