"""`Service`: what the endpoints of one process share, from warm-up to the last request."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Literal

from demitasse.encoding.encoder import Encoder
from demitasse.serving.api_errors import not_ready
from demitasse.serving.body import BodyRoom
from demitasse.serving.engine import Engine
from demitasse.serving.keys import Keys
from demitasse.serving.limits import ServerLimits
from demitasse.serving.metrics import LOAD, Metrics, Snapshot
from demitasse.serving.offer import Offer
from demitasse.serving.worker_counts import WorkerCounts

Stage = Literal["starting", "ready", "stopping"]


@dataclass(frozen=True)
class Model:
    """A model that is ready to be asked."""

    encoder: Encoder
    engine: Engine
    offer: Offer


@dataclass
class Service:
    """The state of one process of the server."""

    limits: ServerLimits = field(default_factory=ServerLimits)
    keys: Keys = field(default_factory=Keys)
    origins: tuple[str, ...] = ()  # of web pages that may use it
    counts: WorkerCounts = field(default_factory=WorkerCounts)
    clock: Callable[[], float] = time.monotonic
    log: Callable[[str], None] | None = None  # a line for every request
    stage: Stage = "starting"
    connections: Callable[[], int] = lambda: 0
    metrics: Metrics = field(default_factory=Metrics)
    streams: int = 0  # replies that go on for ever
    _model: Model | None = None

    def __post_init__(self) -> None:
        self.room = BodyRoom(self.limits.held_bytes)

    def open(self, model: Model) -> None:
        """Answer requests with this model from now on."""
        self._model = model
        if self.stage == "starting":
            self.stage = "ready"

    @property
    def is_open(self) -> bool:
        """Whether the model is loaded."""
        return self._model is not None

    @property
    def model(self) -> Model:
        """The model; until it is loaded, an error that says when to come back."""
        if self._model is None:
            raise not_ready("the model is being loaded; try again in a moment")
        return self._model

    def snapshot(self) -> Snapshot:
        """What this process has counted, and how things stand now."""
        self.metrics.set("demitasse_ready", float(self.stage == "ready"))
        self.metrics.set("demitasse_connections", self.connections())
        if self._model is not None:
            self._measure(self._model.engine)
        return self.metrics.snapshot()

    def snapshots(self) -> list[Snapshot]:
        """What all workers have counted."""
        return [self.snapshot(), *self.counts.others()]

    def _measure(self, engine: Engine) -> None:
        load = asdict(engine.load())
        for metric, name in LOAD.items():
            self.metrics.set(metric, load[name])
