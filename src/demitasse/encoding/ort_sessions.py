"""onnxruntime: where graphs run and with how many threads.

Every session computes on the thread that calls it, and as many batches run side by side as there are cores. A pool of
threads in each session would spin and starve the others' (a third of the speed on two cores, with one session a
layer), and one text at a time is faster without handing pieces of small matrices around.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import onnxruntime as ort

from demitasse.errors import DeviceError

if TYPE_CHECKING:
    import onnx

Values = dict[str, npt.NDArray[Any]]

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "coreml": "CoreMLExecutionProvider",
    "dml": "DmlExecutionProvider",
}


def choose_provider(device: str | None) -> str:
    """What onnxruntime calls `device`; the CPU without a name."""
    name = "cpu" if device is None else device
    provider = PROVIDERS.get(name)
    offered = [short for short, long in PROVIDERS.items() if long in ort.get_available_providers()]
    if provider is None or name not in offered:
        raise DeviceError(
            f"device {name!r} is not offered by the onnxruntime installed here; use {' or '.join(map(repr, offered))}, "
            "or install onnxruntime-gpu, onnxruntime-directml or a macOS build"
        )
    return provider


def open_session(model: str | bytes, provider: str = PROVIDERS["cpu"]) -> ort.InferenceSession:
    """A session for the graph in a file or in memory."""
    options = ort.SessionOptions()
    options.log_severity_level = 3  # errors only, and those are raised too
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if provider == PROVIDERS["cpu"]:
        # Graphs are exported as they are to run. The fusions onnxruntime would add cost more than they save: its
        # SkipLayerNormalization takes seven times as long as an Add and a LayerNormalization.
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        # Every batch has another shape, so nothing that onnxruntime keeps for the next one of the same shape is of use.
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    providers = [provider] if provider == PROVIDERS["cpu"] else [provider, PROVIDERS["cpu"]]
    return ort.InferenceSession(model, options, providers=providers)


def run(session: ort.InferenceSession, values: Mapping[str, npt.NDArray[Any]]) -> Values:
    """What `session` puts out, by name, given those of `values` that it takes."""
    given = {value.name: values[value.name] for value in session.get_inputs()}
    return dict(zip((value.name for value in session.get_outputs()), session.run(None, given), strict=True))


def run_model(model: onnx.ModelProto, feeds: Iterable[Mapping[str, npt.NDArray[Any]]]) -> Iterator[Values]:
    """For each of `feeds`, it and what `model` makes of it."""
    session = open_session(model.SerializeToString())
    for feed in feeds:
        yield {**feed, **run(session, feed)}
