"""`JointEncoder`: the teachers of a space as one encoder, whose vectors lie in that space. No torch of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from demitasse.cut import Cut
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.fingerprints import fingerprint
from demitasse.encoding.mixed_depths import MixedTexts
from demitasse.encoding.pooling import Pooling
from demitasse.encoding.reader import Reader
from demitasse.encoding.spaces import Space
from demitasse.encoding.teacher_space import ROLES, TeacherSpace
from demitasse.encoding.token_tally import TokenTally
from demitasse.encoding.vectors import Vectors, unit_length
from demitasse.errors import CutError, FolderError
from demitasse.host.progress import Advance


@dataclass(frozen=True, eq=False, repr=False)
class JointEncoder(Encoder):
    """One encoder for each teacher of `space`, in its order; the vector of a text is the sum of what each maps to.

    It can be cut to fewer dims, not to fewer layers: its teachers were used whole.
    """

    parts: tuple[Encoder, ...]
    teacher_space: TeacherSpace

    @property
    def dims(self) -> int:  # type: ignore[override]
        """How many dims its vectors have."""
        return self.teacher_space.dims

    @property
    def full(self) -> Cut:
        """All layers of the deepest teacher, and the dims of the space."""
        return Cut(max(part.full.layers for part in self.parts), self.dims)

    @property
    def reader(self) -> Reader:  # type: ignore[override]
        """The first teacher's, with a prompt for each role: its name, which every teacher has its own words for."""
        limit = min(part.max_seq_length for part in self.parts)
        prompts = dict(zip(ROLES, ROLES, strict=True))
        return replace(self.parts[0].reader, prompts=prompts, default_prompt="sentence", max_tokens=limit)

    @property
    def pooling(self) -> Pooling:  # type: ignore[override]
        """The first teacher's."""
        return self.parts[0].pooling

    @property
    def record(self) -> dict[str, Any]:  # type: ignore[override]
        """Where it comes from."""
        return {"source": {"name": " + ".join(part.name for part in self.parts)}}

    @property
    def folder(self) -> Path | None:  # type: ignore[override]
        """None: it is several."""
        return None

    @property
    def architecture(self) -> str:
        """The classes of the teachers."""
        return " + ".join(part.architecture for part in self.parts)

    @property
    def exit_depths(self) -> list[int]:
        """None: the map into the space follows the teachers' own readouts."""
        return []

    @property
    def runtime(self) -> str:
        """What runs the first teacher."""
        return self.parts[0].runtime

    @property
    def device_kind(self) -> str:
        """The kind of device that the first teacher runs on."""
        return self.parts[0].device_kind

    @property
    def place(self) -> str:
        """Where the teachers run."""
        return " + ".join(dict.fromkeys(part.place for part in self.parts))

    @property
    def precision(self) -> str:
        """The number format of the first teacher's weights."""
        return self.parts[0].precision

    @cached_property
    def fingerprint(self) -> str:
        """Names the teachers and the map."""
        facts = [[part.fingerprint for part in self.parts], self.teacher_space.described()]
        return fingerprint(facts, [("weight", self.teacher_space.weight), ("bias", self.teacher_space.bias)])

    @cached_property
    def space(self) -> Space:
        """Its own: what it shares with the model it taught is not known to the guard of an index yet."""
        return Space((self.fingerprint,), fingerprint([part.space.tokenizer for part in self.parts]))

    def model_bytes(self, cut: Cut) -> int:
        """How many bytes of weights all teachers have."""
        return sum(part.model_bytes(part.full) for part in self.parts) + 4 * self.teacher_space.weight[: cut.dims].size

    def count_tokens(
        self, texts: Iterable[str], *, prompt_name: str | None = None, prompt: str | None = None
    ) -> npt.NDArray[np.int64]:
        """How many tokens each text has for the first teacher."""
        prefix = self._prefixes(self.reader.prefix(prompt_name, prompt))[0]
        return self.parts[0].count_tokens(texts, prompt=prefix)

    def save(self, folder: str | Path, *, force: bool = False) -> None:
        """Several models are not one folder; the space is saved with the model that was aligned with them."""
        raise FolderError(
            f"{self.name} are {len(self.parts)} models, which cannot be saved as one; keep the folder of each, and "
            "open them with load_teacher"
        )

    def _limited_to(self, max_seq_length: int) -> JointEncoder:
        return replace(self, parts=tuple(part._limited_to(max_seq_length) for part in self.parts))

    def _on_threads(self, count: int) -> JointEncoder:
        return replace(self, parts=tuple(part._on_threads(count) for part in self.parts))

    def _embed_mixed(self, texts: MixedTexts) -> Vectors:
        raise FolderError(
            f"{self.name} are {len(self.parts)} models with tokenizers of their own, which cannot share a batch; serve "
            "the model that was aligned with them"
        )

    def _cut_to(self, cut: Cut) -> JointEncoder:
        if cut.layers != self.full.layers:
            raise CutError(f"{self.name} cannot be cut to {cut.layers} layers; cut dims only, as in cut(dims=128)")
        return replace(self, teacher_space=self.teacher_space.first(cut.dims))

    def _prefixes(self, prefix: str) -> list[str]:
        """What each teacher puts before texts: its own words for a role, or the prompt that was given."""
        if prefix not in ROLES:
            return [prefix] * len(self.parts)
        return [teacher.prompts.get(prefix, "") for teacher in self.teacher_space.teachers]

    def _embed_windows(
        self, parts: Iterable[list[str]], cuts: Sequence[Cut], prefix: str, tally: TokenTally, advance: Advance
    ) -> Iterator[dict[Cut, Vectors]]:
        prefixes = self._prefixes(prefix)
        for window in parts:
            total = np.zeros((len(window), self.dims), np.float32)
            for number, (part, before) in enumerate(zip(self.parts, prefixes, strict=True)):
                counted = tally if number == 0 else None
                found = part.encode_cuts(window, [part.full], prompt=before, tally=counted, progress=False)
                weight, bias = self.teacher_space.part(number)
                total += found[part.full] @ weight.T + bias
            advance(len(window))
            yield {cut: unit_length(total[:, : cut.dims]) for cut in cuts}
