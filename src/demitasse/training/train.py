"""`train`: an encoder trained on pairs with any objective."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from demitasse.arguments import flag, instance, path
from demitasse.data.pairs import Pairs, read_pairs
from demitasse.encoding.checked_encoder import checked_encoder
from demitasse.encoding.encoder import Encoder
from demitasse.errors import DataError
from demitasse.extras import LORA, need
from demitasse.objectives.aligned import Aligned
from demitasse.objectives.elastic import Elastic
from demitasse.objectives.names import objective_of
from demitasse.objectives.protocol import Objective
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training.batch_sizes import batch_sizes, rows_per_batch
from demitasse.training.batches import shortened
from demitasse.training.options import TrainOptions, check_finite
from demitasse.training.recipe import recipe_for
from demitasse.training.run import Run

Rows = str | Path | Sequence[object]  # some of what `read_pairs` takes
_OPTIONS = "write TrainOptions(steps=200)"


def train(  # noqa: PLR0913 - what, on what, how, where to, and what is seldom given
    encoder: Encoder,
    data: Pairs | Rows,
    objective: Objective | str | None = None,
    *,
    out: str | Path,
    options: TrainOptions | None = None,
    dev: Pairs | Rows | None = None,
    resume: bool = False,
    force: bool = False,
) -> TorchEncoder:
    """`encoder` trained on `data`, written to the folder `out` and returned; the given encoder stays as it is.

    `data` comes from `read_pairs`, or is what that takes; `objective` defaults to `Elastic()`, and names of the command
    line will do. With `dev` (scored pairs) the model is scored now and then, and the best one is the result. A run that
    was stopped or killed continues with `resume=True` and the same arguments. Several processes (`torchrun`) share each
    batch and get the gradients that one would have had. `out` must be new or empty, or with `force` may have files of
    yours in it, which are kept.

    >>> from demitasse import Matryoshka, read_pairs
    >>> pairs = read_pairs([(a, b) for a, b in zip(sentences[:40], sentences[40:80])])
    >>> train(encoder, pairs, Matryoshka(), out=out, options=TrainOptions(steps=3, batch=8))
    Encoder(3x32, BertModel, mean, cpu)
    """
    checked_encoder(encoder)
    if not isinstance(encoder, TorchEncoder):
        raise DataError("an encoder of blocks cannot be trained; load the model it was exported from")
    encoder.check_weights()
    objective = Elastic() if objective is None else objective_of(objective)
    options = TrainOptions() if options is None else instance("options", options, TrainOptions, _OPTIONS)
    data = data if isinstance(data, Pairs) else read_pairs(data)
    dev = dev if dev is None or isinstance(dev, Pairs) else read_pairs(dev)
    out, resume, force = path("out", out), flag("resume", resume), flag("force", force)
    check_finite(objective)
    if options.lora:
        need("lora", LORA)
    objective.cuts(encoder.full)  # a width that does not fit should not wait for the first step
    recipe = recipe_for(objective)
    sizes = batch_sizes(data, shortened(encoder.reader, options.max_tokens), options)
    rows = options.batch if options.batch_tokens is None else rows_per_batch(data, sizes)
    steps = options.steps or max(1, round(options.epochs * len(data) / rows / options.accumulate))
    goals = recipe.goals(steps, options, on_gpu=encoder.device.type == "cuda")
    recipe.check(data, goals)
    if not isinstance(objective, Aligned):
        encoder = replace(encoder, teacher_space=None)  # training leads out of it
    run = Run.begin(encoder, data, objective, goals, out, options, dev, sizes, resume=resume, force=force)
    with _set_by_signals(run.asked_to_stop):
        trained = recipe.train(run, encoder)
    return run.finish(trained)


@contextmanager
def _set_by_signals(asked: threading.Event) -> Iterator[None]:
    """SIGINT and SIGTERM set `asked`, so that a run saves before it ends. A second signal ends it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: object) -> None:
        asked.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
