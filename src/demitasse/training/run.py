"""What all stages of a training run share: the processes, the folder, the data, the stages and the best so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState
from accelerate.tracking import get_available_trackers
from accelerate.utils import LoggerType

from demitasse.data.pairs import Pairs, Source
from demitasse.data.sampler import Sampler
from demitasse.encoding.loading import load
from demitasse.errors import DataError
from demitasse.objectives.elastic import Elastic
from demitasse.objectives.protocol import Objective
from demitasse.objectives.published import Matryoshka
from demitasse.torch_model.torch_encoder import TorchEncoder
from demitasse.training.blending import blended
from demitasse.training.fit_exits import LEAST_SENTENCES, fit_exits
from demitasse.training.options import PRECISIONS, TrainOptions
from demitasse.training.run_folder import LAST, MODEL, RunFolder, plain

TUNED = "stage-1"  # the folder of the model after the first of two stages
DISTIL_RATES = {"adamw": 3e-4, "muon": 1e-3}
EXIT_TEXTS = 20_000  # texts of the run that the closed form of the exits is fitted on


@dataclass(frozen=True)
class Goal:
    """What a stage trains, for how many steps, and how."""

    objective: Objective
    steps: int
    rate: float
    dropout: bool
    optimizer: str = "adamw"


@dataclass
class Run:
    """What all stages of a run share."""

    accelerator: Accelerator
    folder: RunFolder
    data: Pairs
    options: TrainOptions
    stages: list[Goal]
    objective: Objective
    dev: Source | None
    best: float = float("-inf")
    scores: dict[str, float] = field(default_factory=dict)

    @classmethod
    def begin(  # noqa: PLR0913
        cls,
        encoder: TorchEncoder,
        data: Pairs,
        objective: Objective,
        out: Path,
        options: TrainOptions,
        dev: Pairs | None,
        *,
        resume: bool,
    ) -> Run:
        """The run, its folder begun."""
        objective.cuts(encoder.full)  # a width that does not fit should not wait for the first step
        steps = options.steps or max(1, round(options.epochs * len(data) / options.batch / options.accumulate))
        stages = goals(objective, steps, options, on_gpu=encoder.device.type == "cuda")
        _check_kinds(data, stages)
        if isinstance(objective, Elastic) and objective.exits:
            _check_enough(data)
        accelerator = _accelerator(encoder, options, out)
        folder = RunFolder(out, writes=accelerator.is_main_process)
        source = _scored(dev)
        description = {
            "options": plain(options),
            "objective": plain(objective),
            "data": data.describe(),
            "dev": dev.describe() if dev is not None else None,
            "base": {"record": dict(encoder.record), "full": str(encoder.full)},
            "steps": steps,
            "processes": accelerator.num_processes,
        }
        folder.begin(description, resume=resume)
        accelerator.wait_for_everyone()
        if options.trackers:
            accelerator.init_trackers(out.name, config={"objective": str(objective), "options": str(options)})
        return cls(accelerator, folder, data, options, stages, objective, source)

    def keep_tuned(self, before: TorchEncoder, encoder: TorchEncoder) -> None:
        """Write the tuned model, which is the teacher and what the second stage starts from, with its exits."""
        assert isinstance(self.objective, Elastic)  # no other has a second stage
        if self.accelerator.is_main_process:
            if self.objective.blend < 1:
                encoder = blended(before, encoder, self.objective.blend)
            # Exits of a model that was not tuned still fit.
            if self.objective.exits and (self.stages[0].steps or not encoder.exits):
                encoder = fit_exits(encoder, self._texts(1), refine=False)
            encoder.save(self.folder.path / TUNED)
        self.accelerator.wait_for_everyone()

    def tuned(self, device: torch.device) -> TorchEncoder:
        """What `keep_tuned` wrote."""
        found = load(self.folder.path / TUNED, device=str(device))
        assert isinstance(found, TorchEncoder)
        return found

    def _texts(self, number: int) -> list[str]:
        """Different texts as stage `number` draws them; of little data, all of them."""
        sampler, found = self.sampler(number), dict[str, None]()
        drawn = 0
        while len(found) < EXIT_TEXTS and drawn < 4 * len(self.data):
            columns = sampler.next().columns
            drawn += len(columns[0])
            found.update(dict.fromkeys(chain.from_iterable(columns)))
        found.update(dict.fromkeys(self.data.texts(max(0, EXIT_TEXTS - len(found)))))
        return list(islice(found, EXIT_TEXTS))

    def sampler(self, stage: int) -> Sampler:
        """What a stage draws its batches from."""
        paired_only = not isinstance(self.stages[stage].objective, Elastic)
        return Sampler(self.data, self.options.batch, self.options.seed + stage, paired_only=paired_only)

    def finish(self, encoder: TorchEncoder) -> TorchEncoder:
        """Write the result; the best if the dev set has named one before the last."""
        model = self.folder.path / MODEL
        if self.accelerator.is_main_process:
            encoder.save(self.folder.path / LAST if self.dev is not None else model)
        self.accelerator.wait_for_everyone()
        if self.options.trackers:
            self.accelerator.end_training()
        result = load(model, device=str(encoder.device))
        assert isinstance(result, TorchEncoder)
        return result

    def record(self, encoder: TorchEncoder, scores: dict[str, float]) -> dict[str, Any]:
        """What a trained model says about itself."""
        cuts = [{"cut": cut, "dev": {"spearman": value}} for cut, value in scores.items()]
        return {
            **encoder.record,
            "objective": {**plain(self.objective), "options": plain(self.options)},
            "data": self.data.describe(),
            "cuts": cuts,
        }


def goals(objective: Objective, steps: int, options: TrainOptions, *, on_gpu: bool = False) -> list[Goal]:
    """The stages that `steps` of `objective` are made of."""
    usual = options.optimizer or "adamw"
    if not isinstance(objective, Elastic):
        return [Goal(objective, steps, options.rate, options.dropout, usual)]
    tuned = min(round(objective.tune * steps), steps - 1)
    first = Goal(Matryoshka(objective.dims), tuned, options.rate, options.dropout, usual)
    # On a CPU, Muon's products of matrices would take as long as the rest of a small batch.
    optimizer = options.optimizer or ("muon" if on_gpu else "adamw")
    rate = DISTIL_RATES[optimizer] if objective.distil_rate is None else objective.distil_rate
    # A student that is told its teacher's answer needs no noise.
    return [first, Goal(objective, steps - tuned, rate, dropout=False, optimizer=optimizer)]


def _accelerator(encoder: TorchEncoder, options: TrainOptions, out: Path) -> Accelerator:
    on_cpu = encoder.device.type == "cpu"
    precision = options.precision or ("bf16" if not on_cpu and torch.cuda.is_bf16_supported() else "fp32")
    known = {str(kind.value) for kind in LoggerType} - {"all"}
    available = {str(getattr(kind, "value", kind)) for kind in get_available_trackers()}
    for name in options.trackers:
        if name not in available:
            cure = f"pip install {name}" if name in known else f"use one of {', '.join(sorted(known))}"
            raise DataError(f"tracker {name!r} is not {'installed' if name in known else 'known'}; {cure}")
    AcceleratorState._reset_state()  # it remembers the precision of an earlier run in this process
    return Accelerator(
        cpu=on_cpu,
        mixed_precision=PRECISIONS[precision],
        log_with=list(options.trackers) or None,
        project_dir=str(out) if options.trackers else None,
        # A pooler that is not used, exits of layers that were not drawn: some weights may get no gradient.
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )


def _check_kinds(data: Pairs, stages: list[Goal]) -> None:
    """Refuse plain texts where no stage could use them, or nothing else where one needs more."""
    if all(source.paired for source in data.sources):
        return
    plain_name = next(source.name for source in data.sources if not source.paired)
    if not any(isinstance(stage.objective, Elastic) for stage in stages):
        raise DataError(f"{plain_name} holds plain texts, which only Elastic learns from; give pairs, or use Elastic")
    needs_pairs = any(stage.steps for stage in stages if not isinstance(stage.objective, Elastic))
    if needs_pairs and not any(source.paired for source in data.sources):
        raise DataError(
            f"{plain_name} holds plain texts and the last layer is tuned on pairs; add pairs, or use tune=0"
        )


def _check_enough(data: Pairs) -> None:
    """Refuse data that exits cannot be fitted on, before a stage is trained in vain."""
    found = sum(1 for _ in data.texts(LEAST_SENTENCES))
    if found < LEAST_SENTENCES:
        raise DataError(
            f"the data has {found} different texts, and Elastic fits exits on at least {LEAST_SENTENCES}; "
            "give more rows, or use exits=False"
        )


def _scored(dev: Pairs | None) -> Source | None:
    if dev is None:
        return None
    if len(dev.sources) != 1 or dev.sources[0].kind != "scored":
        raise DataError("the dev set must be one source of scored pairs (anchor, positive, score)")
    return dev.sources[0]
