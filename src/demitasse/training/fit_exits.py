"""`fit_exits`: make any encoder elastic from unlabelled sentences, in a minute or two on a laptop."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from demitasse.arguments import flag, whole
from demitasse.encoding.batching import windows
from demitasse.encoding.checked_encoder import checked_encoder
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.exits import Exit, Moments, choose_exit, mean_cosine, neighbour_agreement, similarity_agreement
from demitasse.encoding.text_checks import checked
from demitasse.encoding.vectors import Vectors
from demitasse.errors import DataError
from demitasse.host.progress import progress_bar
from demitasse.torch_model.readout import Dense, as_modules, embed, on_device, unit_length
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training import refine_exits as refining

HELD_OUT_EVERY = 20  # every twentieth sentence is held out of the fit, to choose lambda and to measure
HELD_OUT_ROWS = 2000
SAMPLE_ROWS = 20_000  # sentences whose states are kept for the order and the refinement, at most
SAMPLE_BYTES = 512 << 20  # and their size, which means fewer for a deep and wide encoder
LEAST_SENTENCES = 200
WINDOW = 2048  # sentences whose states are in memory at every depth at a time


def fit_exits(
    encoder: Encoder,
    sentences: Iterable[str],
    *,
    order: bool = True,
    refine: bool = True,
    seed: int = 0,
    progress: bool | None = None,
) -> TorchEncoder:
    """`encoder` with a fitted exit at every depth below the last, so that shallow cuts give good vectors.

    Needs no labels: about 20,000 sentences of the kind you will encode. The closed form takes one pass in flat
    memory. `order` then rotates the space so that narrow cuts lose less (full-width cosines stay as they are), and
    `refine` distils similarities into the exits. The last layer's vectors keep their quality at full width.

    The result's `record["cuts"]` has, for every depth and on held-out sentences: which share of the 10 nearest
    neighbours are those of the full embedding (`neighbours`, what a search sees), the correlation of similarities with
    it, and the mean cosine to it, both of which `refine` may lower while it raises the first.

    >>> fit_exits(encoder, sentences, order=False, refine=False)
    Encoder(3x32, BertModel, mean, exits at 0-2, cpu)
    """
    checked_encoder(encoder)
    order, refine, seed = flag("order", order), flag("refine", refine), whole("seed", seed, 0)
    if not isinstance(encoder, TorchEncoder):
        raise DataError("an encoder of blocks cannot be fitted; load the model it was exported from")
    encoder.check_weights()
    seen = _gather(encoder, sentences, seed, progress)
    steps = refining.ORDER_STEPS * order + refining.REFINE_STEPS * refine
    with progress_bar("fitting exits", steps, show=progress) as advance:
        targets, held_targets = seen.sample.vectors("target"), seen.held_out.vectors("target")
        chosen = {
            depth: choose_exit(moments, seen.held_out.vectors(depth), held_targets)
            for depth, moments in seen.moments.items()
        }
        exits = {depth: exit_ for depth, (exit_, _) in chosen.items()}
        # Whatever gives the full embedding now keeps doing so: an exit, if this encoder is itself a shallow cut.
        head = encoder.readout(encoder.full.layers)
        if order:
            rotation = refining.learn_order(targets, seed, advance)
            targets, held_targets = targets @ rotation, held_targets @ rotation
            exits = {depth: exit_.rotated(rotation) for depth, exit_ in exits.items()}
            *narrowed, _ = as_modules(head, encoder.state_dims, encoder.dims)
            head = on_device((*narrowed, Dense(torch.from_numpy(np.ascontiguousarray(rotation.T)))), encoder.device)
        if refine:
            sampled = {depth: seen.sample.vectors(depth) for depth in exits}
            exits = refining.refine_exits(exits, sampled, targets, seed, advance)
    record = {
        **encoder.record,
        "objective": {
            "name": "exits",
            "order": order,
            "refine": refine,
            "seed": seed,
            "lambda": {str(depth): value for depth, (_, value) in chosen.items()},
        },
        "data": {"sentences": seen.count, "sha256": seen.digest},
        "cuts": _measured(exits, seen.held_out, held_targets),
    }
    return replace(encoder, exits=exits, head=head, record=record, teacher_space=None)


def _measured(exits: dict[int, Exit], held_out: Sample, targets: Vectors) -> list[dict[str, Any]]:
    measured = []
    for depth, exit_ in exits.items():
        vectors = exit_(held_out.vectors(depth))
        quality = {
            "cosine": mean_cosine(vectors, targets),
            "similarity": similarity_agreement(vectors, targets),
            "neighbours": neighbour_agreement(vectors, targets),
        }
        measured.append({"cut": f"{depth}x{exit_.dims}", "held_out": quality})
    return measured


class Sample:
    """The states and embeddings of at most `size` texts, a uniform sample of a stream."""

    def __init__(self, size: int, seed: int) -> None:
        self._size = size
        self._random = np.random.default_rng(seed)
        self._kept: dict[int | str, Vectors] = {}
        self.seen = 0

    def add(self, states: dict[int | str, Vectors]) -> None:
        """Offer a window of texts: the n-th vector of every array belongs to the same text."""
        count = len(next(iter(states.values())))
        if not self._kept:
            self._kept = {key: np.empty((self._size, part.shape[1]), np.float32) for key, part in states.items()}
        for number in range(count):
            # Algorithm R: the n-th text replaces a sampled one with probability size / n.
            slot = self.seen if self.seen < self._size else int(self._random.integers(0, self.seen + 1))
            self.seen += 1
            if slot < self._size:
                for key, part in states.items():
                    self._kept[key][slot] = part[number]

    def vectors(self, key: int | str) -> Vectors:
        """The sampled states at a depth, or the embeddings under "target"."""
        return self._kept[key][: min(self.seen, self._size)]


@dataclass
class _Seen:
    """What one pass over the sentences collects."""

    moments: dict[int, Moments]
    sample: Sample
    held_out: Sample
    count: int = 0
    digest: str = ""
    _hash: Any = field(default_factory=hashlib.sha256)

    def add(self, sentences: Sequence[str], states: dict[int | str, Vectors]) -> None:
        for sentence in sentences:
            self._hash.update(sentence.encode("utf-8") + b"\n")
        held = (np.arange(self.count, self.count + len(sentences)) % HELD_OUT_EVERY) == HELD_OUT_EVERY - 1
        if held.any():
            self.held_out.add({key: part[held] for key, part in states.items()})
        fitted = {key: part[~held] for key, part in states.items()}
        self.sample.add(fitted)
        for depth, moments in self.moments.items():
            moments.add(fitted[depth], fitted["target"])
        self.count += len(sentences)
        self.digest = self._hash.hexdigest()


def _gather(encoder: TorchEncoder, sentences: Iterable[str], seed: int, progress: bool | None) -> _Seen:  # noqa: FBT001
    layers, dims = encoder.full
    text_bytes = 4 * (layers * encoder.state_dims + dims)
    seen = _Seen(
        moments={depth: Moments(encoder.state_dims, dims) for depth in range(layers)},
        sample=Sample(min(SAMPLE_ROWS, max(1024, SAMPLE_BYTES // text_bytes)), seed),
        held_out=Sample(HELD_OUT_ROWS, seed),
    )
    total = len(sentences) if isinstance(sentences, Sequence) else None
    with progress_bar("reading sentences", total, show=progress) as advance:
        for window in windows(_not_blank(sentences), WINDOW):
            seen.add(window, _states(encoder, window))
            advance(len(window))
    if seen.count < LEAST_SENTENCES:
        raise DataError(
            f"{seen.count} sentences are too few to fit exits; give at least {LEAST_SENTENCES}, ideally 20,000"
        )
    return seen


def _states(encoder: TorchEncoder, window: Sequence[str]) -> dict[int | str, Vectors]:
    """The states at every depth below the last, and the full embedding as "target"."""
    layers, dims = encoder.full
    states = encoder.states(window, range(layers + 1))
    with torch.inference_mode():
        target = unit_length(embed(encoder.readout(layers), states.pop(layers))[:, :dims])
    kept: dict[int | str, Vectors] = {depth: state.cpu().numpy() for depth, state in states.items()}
    return {**kept, "target": target.cpu().numpy()}


def _not_blank(sentences: Iterable[str]) -> Iterator[str]:
    return (sentence for sentence in checked(sentences) if sentence.strip())
