"""Teachers of a run: which models they are, and their vectors of its texts, each made once and kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from demitasse.encoding.encoder import Encoder
from demitasse.encoding.exits import mean_cosine
from demitasse.encoding.loading import load
from demitasse.encoding.reader import Reader
from demitasse.encoding.teacher_space import ROLES, SpaceTeacher
from demitasse.encoding.vectors import unit_length
from demitasse.errors import DemitasseError, FolderError
from demitasse.host.bundled import corpus
from demitasse.host.progress import progress_bar
from demitasse.training.numbered_texts import Hashes, NumberedTexts, Numbers, prompted
from demitasse.training.vector_store import PER_FILE, VectorStore, store_name

_TRIED = 64  # sentences that half precision is compared on
_CLOSE = 0.999  # the least mean cosine of vectors in half precision to those in fp32


def find_teacher(name: str, weight: float, *, prompts: bool) -> SpaceTeacher:
    """The teacher in a folder or under a hub name; with `prompts`, it reads texts with its own for their roles."""
    encoder = load(name, device="cpu")
    read = {role: prompt for role in ROLES if (prompt := prompt_of(encoder.reader, role))} if prompts else {}
    default = encoder.reader.prefix()
    if not prompts and default:
        read = dict.fromkeys(ROLES, default)
    # Where a folder lies is nobody else's business.
    known = Path(name).name if Path(name).is_dir() else name
    return SpaceTeacher(known, encoder.fingerprint, encoder.full.dims, weight, read)


def prompt_of(reader: Reader, role: str) -> str:
    """What a model puts before texts of a role; before sentences its default, if it has no prompt of that name."""
    if role == "sentence":
        return reader.prompts.get(role, reader.prefix())
    return reader.prefix(role)


def store_of(folder: Path, teacher: SpaceTeacher) -> VectorStore:
    """Where the vectors of `teacher` are kept."""
    return VectorStore(folder / store_name(teacher.name, teacher.fingerprint), teacher.dims)


def write_vectors(
    folder: Path, teacher: SpaceTeacher, texts: NumberedTexts, numbers: Numbers, opened: Callable[[], Encoder]
) -> None:
    """Make the vectors of `teacher` that are not in `folder` yet; without any to make, it is not even `opened`."""
    store, hashes = store_of(folder, teacher), hashes_for(teacher, texts, numbers)
    absent = store.missing(hashes)
    if not absent.any():
        return
    encoder, read_as = _fast(opened()), texts.read_as[numbers]
    with progress_bar(f"vectors of {teacher.name}", int(absent.sum())) as advance:
        for prefix in sorted({*_prefixes(teacher, texts)}):
            readings = [which for which, own in enumerate(_prefixes(teacher, texts)) if own == prefix]
            own = np.flatnonzero(absent & np.isin(read_as, readings))
            # The same text may be there twice, as a query and as a sentence that have the same prompt.
            _, first = np.unique(hashes[own], return_index=True)
            for part, vectors in _encoded(encoder, texts, numbers, np.sort(own[first]), prefix):
                store.add(hashes[part], vectors)
                advance(len(part))


def hashes_for(teacher: SpaceTeacher, texts: NumberedTexts, numbers: Numbers) -> Hashes:
    """What the vectors of the texts `numbers` are kept under: the hash of each with its prompt."""
    read_as, hashes = texts.read_as[numbers], texts.hashes[numbers]
    for which, prefix in enumerate(_prefixes(teacher, texts)):
        own = read_as == which
        hashes[own] = prompted(hashes[own], prefix)
    return hashes


def same_teacher(name: str, known: SpaceTeacher, device: torch.device) -> Encoder:
    """The encoder in a folder or under a hub name, refused if it is not the `known` one."""
    encoder = load(name, device=str(device))
    if encoder.fingerprint != known.fingerprint:
        raise FolderError(
            f"{name} is not the model that this run began with (its fingerprint is another); put that one back, or "
            "start in a new folder"
        )
    return encoder


def _prefixes(teacher: SpaceTeacher, texts: NumberedTexts) -> list[str]:
    """What comes before the texts of each reading."""
    return [teacher.prompts.get(reading.role or "sentence", "") for reading in texts.readings]


def _encoded(
    encoder: Encoder, texts: NumberedTexts, numbers: Numbers, own: Numbers, prefix: str
) -> Iterator[tuple[Numbers, npt.NDArray[np.float16]]]:
    """The vectors of the texts at `own` in `numbers`, some thousand at a time."""
    vectors = np.empty((PER_FILE, encoder.full.dims), np.float16)
    filled = begin = 0
    for vector in encoder.encode_iter(texts.texts(numbers[own]), prompt=prefix, progress=False):
        vectors[filled] = vector
        filled += 1
        if filled == PER_FILE or begin + filled == len(own):
            yield own[begin : begin + filled], vectors[:filled]
            begin, filled = begin + filled, 0


def _fast(encoder: Encoder) -> Encoder:
    """`encoder` in half precision on a GPU, if its vectors are the same that way; else as it is."""
    if encoder.device_kind != "cuda" or encoder.runtime != "torch" or encoder.folder is None:
        return encoder
    try:
        half = load(encoder.folder, device=encoder.place, dtype="fp16")
        sample = corpus()[:_TRIED]
        close = mean_cosine(half.encode(sample, progress=False), encoder.encode(sample, progress=False))
    except DemitasseError:  # a state that is too large for fp16
        return encoder
    return half if close >= _CLOSE else encoder


def joined_vectors(
    folder: Path, teachers: Sequence[SpaceTeacher], texts: NumberedTexts, numbers: Numbers, into: torch.Tensor
) -> torch.Tensor:
    """`into` (M, T), filled with the joined vectors of the texts `numbers` (see encoding/teacher_space.py)."""
    begin = 0
    for teacher in teachers:
        for chosen, vectors in store_of(folder, teacher).parts(hashes_for(teacher, texts, numbers)):
            scaled = unit_length(vectors) * np.float32(np.sqrt(teacher.weight))
            rows = torch.from_numpy(chosen).to(into.device)
            into[rows, begin : begin + teacher.dims] = torch.from_numpy(scaled).to(into)
        begin += teacher.dims
    return into
