"""onnxruntime: where graphs run and on how many threads.

Every session computes on the thread that calls it, and as many batches run in parallel as there are cores. A pool of
threads in each session would spin and starve the others (a third of the speed on two cores, with one session per
layer), and a single text is faster when small matrices are not split between threads.
"""

from __future__ import annotations

import os
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
    """The onnxruntime provider for `device`; the CPU if `device` is `None`."""
    name = "cpu" if device is None else device
    provider = PROVIDERS.get(name)
    offered = [short for short, long in PROVIDERS.items() if long in ort.get_available_providers()]
    if provider is None or name not in offered:
        raise DeviceError(
            f"device {name!r} is not offered by the installed onnxruntime; use {' or '.join(map(repr, offered))}, "
            "or install onnxruntime-gpu, onnxruntime-directml or a macOS build"
        )
    return provider


def open_session(model: str | bytes, provider: str = PROVIDERS["cpu"]) -> ort.InferenceSession:
    """A session for the graph in a file or in memory."""
    options = ort.SessionOptions()
    options.log_severity_level = 3  # errors only, and those are raised as well
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if provider == PROVIDERS["cpu"]:
        # Graphs are exported as they should run. The fusions onnxruntime would add cost more than they save: its
        # SkipLayerNormalization takes seven times as long as an Add and a LayerNormalization.
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        # Batches differ in shape, so what onnxruntime keeps for the next batch of the same shape is never used.
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    if isinstance(model, bytes):
        # A graph may name files with more weights, which onnxruntime would look for in the working directory. Ours
        # never do: what is computed with is in the bytes that were checked. Nothing is inside a device.
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
    providers = [provider] if provider == PROVIDERS["cpu"] else [provider, PROVIDERS["cpu"]]
    # Without enable_fallback=0 it prints to stdout what is wrong with a graph, and tries again.
    session = ort.InferenceSession(model, options, providers=providers, enable_fallback=0)
    session._model_bytes = None  # kept only to change the provider later, and as large as the model
    return session


def run(session: ort.InferenceSession, values: Mapping[str, npt.NDArray[Any]]) -> Values:
    """The outputs of `session` by name, given those of `values` that it takes."""
    wanted = [value.name for value in session.get_inputs()]
    missing = [name for name in wanted if name not in values]
    if missing:
        raise ValueError(f"it wants {missing[0][:60]!r}, which nothing gives")
    given = {name: values[name] for name in wanted}
    return dict(zip((value.name for value in session.get_outputs()), session.run(None, given), strict=True))


def run_model(model: onnx.ModelProto, feeds: Iterable[Mapping[str, npt.NDArray[Any]]]) -> Iterator[Values]:
    """Each of `feeds` together with the outputs of `model` for it."""
    session = open_session(model.SerializeToString())
    for feed in feeds:
        yield {**feed, **run(session, feed)}
