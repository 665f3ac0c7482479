"""`TextBank`: token ids and teachers' vectors of all texts of a run, on the device, found by number.

A step then sends the GPU the numbers of its texts and nothing else. The vectors are kept in fp16; where they do not fit
beside the model, they stay on the host, in memory or in a file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from demitasse.encoding.batching import windows
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.encoding.reader import Reader
from demitasse.encoding.teacher_space import TeacherSpace
from demitasse.encoding.word_processes import helped
from demitasse.host.progress import progress_bar
from demitasse.torch_model.device_tokens import ChosenTexts, to_device
from demitasse.training.numbered_texts import NumberedTexts, Numbers

IN_MEMORY = 8 << 30  # bytes of vectors on the host beyond which they are in a file
OF_THE_GPU = 0.4  # share of its free memory that they may take
_WINDOW = 1 << 15  # texts that are read and tokenised at a time
_MANY = 100_000  # texts that are worth other processes to tokenise them
_FULL = np.int32(-1)


@dataclass(frozen=True, eq=False)
class Tokens:
    """The token ids of the texts `numbers`, by slot, and how many of them are the student's prompt."""

    numbers: Numbers  # increasing
    slots: npt.NDArray[np.int32]  # of every number; -1 for those without tokens
    packed: PackedTokens
    prompt_tokens: npt.NDArray[np.int64] | None  # to leave out of pooling


def read_tokens(
    texts: NumberedTexts, numbers: Numbers, reader: Reader, prompts: Sequence[str], *, pool_prompt: bool
) -> Tokens:
    """The token ids of the texts `numbers`, each with the prompt that it is read with."""
    prefixes = [reader.prefix(name) for name in prompts] or [reader.prefix()]
    read_as = texts.read_as[numbers]
    reading_all = helped(reader) if len(numbers) >= _MANY else reader
    packed: list[tuple[Numbers, PackedTokens]] = []
    with progress_bar("reading texts", len(numbers)) as advance:
        for which, reading in enumerate(texts.readings):
            own = np.flatnonzero(read_as == which)
            begin = 0
            for window in windows(texts.texts(numbers[own]), _WINDOW):
                tokens = reading_all.read(window, prefixes[reading.prompt])
                packed.append((own[begin : begin + len(window)], tokens))
                begin += len(window)
                advance(len(window))
    order = np.argsort(np.concatenate([where for where, _ in packed]), kind="stable")
    joined = PackedTokens.joined([part for _, part in packed])
    ordered = PackedTokens(joined.ids, joined.starts[order], joined.lengths[order], joined.whole_lengths[order])
    slots = np.full(len(texts), _FULL)
    slots[numbers] = np.arange(len(numbers), dtype=np.int32)
    counts = np.array([0 if pool_prompt else reader.prompt_tokens(prefix) for prefix in prefixes])
    of_reading = counts[[reading.prompt for reading in texts.readings]]
    return Tokens(numbers, slots, ordered, of_reading[read_as] if of_reading.any() else None)


class TextBank:
    """What a run needs to know of its texts, by slot."""

    def __init__(
        self, tokens: Tokens, vectors: Tensor, space: TeacherSpace, mean: Tensor | None, device: torch.device
    ) -> None:
        self._slots, self._lengths, self._prompt_tokens = tokens.slots, tokens.packed.lengths, tokens.prompt_tokens
        self._ids = to_device(tokens.packed.ids, device)
        self._places = to_device(np.stack([tokens.packed.starts, tokens.packed.lengths]), device)
        self._vectors, self.device = vectors, device
        self._mean = None if mean is None else mean.to(device)
        self._weight = torch.from_numpy(space.weight).to(device)
        self._bias = torch.from_numpy(space.bias).to(device)

    def slots(self, columns: Iterable[Sequence[object]]) -> Numbers:
        """Where the texts of a batch's columns are: (C, B)."""
        numbers = np.array([*columns], np.int64)
        return self._slots[numbers].astype(np.int64)

    def chosen(self, slots: Numbers) -> tuple[ChosenTexts, Tensor | None]:
        """The tokens of the texts in `slots` (M,), and how many of each are its prompt, if that matters."""
        starts, lengths = self._places[:, to_device(slots, self.device)]
        counts = None if self._prompt_tokens is None else torch.from_numpy(self._prompt_tokens[slots])
        return ChosenTexts(self._ids, starts, lengths, self._lengths[slots]), counts

    def targets(self, slots: Numbers) -> tuple[Tensor, Tensor]:
        """For the texts in `slots` (C, B): the teachers' joined vectors (C, B, T), and those in the space (C, B, D)."""
        if self._vectors.device.type == self.device.type:
            joined = self._vectors[to_device(slots, self.device)]
        else:
            rows = self._vectors[torch.from_numpy(slots)]
            joined = rows.pin_memory().to(self.device, non_blocking=True)
        joined = joined.float()
        anchor = torch.nn.functional.linear(joined, self._weight, self._bias)
        return joined if self._mean is None else joined - self._mean, anchor


def empty_vectors(shape: tuple[int, int], device: torch.device, folder: Path) -> Tensor:
    """Room for fp16 vectors: on `device` if they fit beside a model, else on the host, in a file if they are many."""
    size = 2 * shape[0] * shape[1]
    if device.type == "cuda" and size <= OF_THE_GPU * torch.cuda.mem_get_info(device)[0]:
        return torch.empty(shape, dtype=torch.float16, device=device)
    if size <= IN_MEMORY:
        return torch.empty(shape, dtype=torch.float16)
    with tempfile.TemporaryFile(dir=folder) as file:  # it has no name, so nothing is left of it
        return torch.from_numpy(np.memmap(file, np.float16, "w+", shape=shape))
