"""OpenVINO on one whole graph beside the built-in blocks, in turns: is it worth a second backend?

    demitasse export built-in --format onnx --out graph   # built-in: the full-precision model of research/built_in.py
    python benchmarks/openvino_graph.py graph --sts STS_FOLDER --scales sentences.txt.gz \\
        --json benchmarks/results/openvino.json

Needs openvino and nncf. The graph is quantised by NNCF (static int8, transformer preset) with scales from 300 of the
sentences. Both encode the same 2,000 STS-B sentences and 200 of them one at a time.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import nncf
import numpy as np
import openvino

import demitasse as dt
from demitasse.encoding.batching import token_batches

ROUNDS = 5
TOKENS = 512


def feeds(encoder: dt.Encoder, texts: list[str]) -> list[tuple[list[int], dict[str, np.ndarray]]]:
    rows = encoder.reader.read(texts)
    made = []
    for batch in token_batches(rows.lengths.tolist(), TOKENS):
        ids, mask = encoder.reader.padded(rows, batch)
        made.append((batch, {"input_ids": ids, "attention_mask": mask}))
    return made


def openvino_encode(encoder: dt.Encoder, model: openvino.Model, hint: str) -> Callable[[list[str]], np.ndarray]:
    compiled = openvino.Core().compile_model(model, "CPU", {"PERFORMANCE_HINT": hint})
    request = compiled.create_infer_request()

    def encode(texts: list[str]) -> np.ndarray:
        vectors = np.empty((len(texts), 384), np.float32)
        batches = feeds(encoder, texts)
        if len(batches) == 1:
            request.infer(batches[0][1])
            vectors[batches[0][0]] = request.get_output_tensor().data
            return vectors
        queue = openvino.AsyncInferQueue(compiled)
        queue.set_callback(lambda done, batch: vectors.__setitem__(batch, done.get_output_tensor().data))
        for batch, feed in batches:
            queue.start_async(feed, batch)
        queue.wait_all()
        return vectors

    return encode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", type=Path)
    parser.add_argument("--sts", type=Path, required=True)
    parser.add_argument("--scales", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    with gzip.open(options.sts / "stsb-test.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    texts = [row[side] for side in "ab" for row in rows][:2000]
    with gzip.open(options.scales, "rt") as lines:
        scales = lines.read().splitlines()[:30000:100]
    encoder = dt.load()
    model = openvino.Core().read_model(options.graph / "model.onnx")
    dataset = nncf.Dataset([feed for _, feed in feeds(encoder, scales)])
    small = nncf.quantize(model, dataset, model_type=nncf.ModelType.TRANSFORMER, subset_size=100)
    methods = {"demitasse int8": lambda given: encoder.encode(given, progress=False)}
    for hint in ("LATENCY", "THROUGHPUT"):
        methods[f"OpenVINO as exported, {hint}"] = openvino_encode(encoder, model, hint)
        methods[f"OpenVINO int8, {hint}"] = openvino_encode(encoder, small, hint)
    rates: dict[str, list[float]] = {name: [] for name in methods}
    single: dict[str, list[float]] = {name: [] for name in methods}
    for turn in range(ROUNDS + 1):
        for name, encode in methods.items():
            begun = time.perf_counter()
            encode(texts)
            if turn:  # the first warms up
                rates[name].append(len(texts) / (time.perf_counter() - begun))
                for text in texts[turn * 40 :][:40]:
                    begun = time.perf_counter()
                    encode([text])
                    single[name].append(time.perf_counter() - begun)
    result = {
        "versions": {name: version(name) for name in ("demitasse", "onnxruntime", "openvino", "nncf")},
        "rows": {
            name: {
                "sentences_a_second": round(float(np.median(rates[name])), 1),
                "p50_ms": round(1000 * float(np.median(single[name])), 3),
            }
            for name in methods
        },
    }
    print(json.dumps(result, indent=1))
    options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
