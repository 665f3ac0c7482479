"""`train`: an encoder trained on pairs with any objective, in one stage or two."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demitasse.data.pairs import Pairs
from demitasse.encoding.encoder import Encoder
from demitasse.errors import DataError
from demitasse.objectives.elastic import Elastic
from demitasse.objectives.protocol import Objective
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training.options import TrainOptions
from demitasse.training.run import Run
from demitasse.training.stage import Stage


def train(  # noqa: PLR0913 - what, on what, how, where to, and two that are seldom given
    encoder: Encoder,
    data: Pairs,
    objective: Objective | None = None,
    *,
    out: str | Path,
    options: TrainOptions | None = None,
    dev: Pairs | None = None,
    resume: bool = False,
) -> TorchEncoder:
    """`encoder` trained on `data`, written to the folder `out` and returned; the encoder given is left as it is.

    `objective` is `Elastic()` unless another is given. With `dev` (scored pairs) the model is scored now and then, and
    the best one is the result. A run that was stopped or killed goes on with `resume=True` and the same arguments.
    Several processes (`torchrun`) share each batch and get the gradients that one would have had.

    >>> from demitasse import Matryoshka, read_pairs
    >>> pairs = read_pairs([(a, b) for a, b in zip(sentences[:40], sentences[40:80])])
    >>> train(encoder, pairs, Matryoshka(), out=out, options=TrainOptions(steps=3, batch=8))
    Encoder(3x32, BertModel, mean, cpu)
    """
    if not isinstance(encoder, TorchEncoder):
        raise DataError("an encoder of blocks cannot be trained; load the model it was exported from")
    run = Run.begin(encoder, data, objective or Elastic(), Path(out), options or TrainOptions(), dev, resume=resume)
    saved = run.folder.saved() if resume else None
    with _stop_signals() as asked_to_stop:
        for number, stage in enumerate(run.stages):
            if saved is not None and int(saved["stage"]) > number:
                continue
            start = run.tuned(encoder.device) if number else encoder
            encoder = Stage(run, number, stage, start).train(saved, asked_to_stop)
            saved = None
            if number + 1 < len(run.stages):
                run.keep_tuned(start, encoder)
    return run.finish(encoder)


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set, so that a run saves before it ends. A second one ends it at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: object) -> None:
        asked.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
