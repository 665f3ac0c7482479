"""Texts per second on a GPU: sentence-transformers, a plain loop and demitasse, interleaved in one run.

    python benchmarks/encode_gpu.py MODEL --sentences sentences.txt --passages passages.jsonl --json results.json

MODEL is a sentence-transformers folder. SENTENCES has one text per line, PASSAGES one JSON object per line, with
`text` (and `title`). Every method encodes the second half of the texts at 6, 3, 1 and 0 layers, in the same number
format, and gives float32 vectors on the host. demitasse remembers words, so it is loaded afresh for every turn and
encodes the texts twice: once after the first half only ("new texts": early in a job), then again (late in a large job,
when most words have been seen; and what the other methods do in every round). sentence-transformers runs at the best
of its batch sizes. The plain loop is what one would write by hand: one call of the tokenizers library, length-sorted
batches of 131,072 tokens, no waiting between batches.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import sentence_transformers
import torch
import transformers
from sentence_transformers import SentenceTransformer

import demitasse as dt

BATCH_SIZES = (256, 1024)  # smaller ones were slower in every earlier run
LAYERS = (6, 3, 1, 0)
ROUNDS = 3


def read_lines(path: Path) -> list[str]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        rows = lines.read().splitlines()
    if ".jsonl" in path.name:
        return [" ".join(filter(None, (row.get("title"), row["text"]))) for row in map(json.loads, rows)]
    return rows


def sliced(model: str, layers: int, dtype: torch.dtype) -> SentenceTransformer:
    """sentence-transformers with its layers sliced by hand, as its documentation shows."""
    whole = SentenceTransformer(model, device="cuda", model_kwargs={"dtype": dtype})
    encoder = whole[0].auto_model.encoder
    encoder.layer = encoder.layer[:layers]
    return whole


def plain_loop(model: SentenceTransformer, texts: list[str]) -> np.ndarray:
    tokenizer, transformer = model.tokenizer.backend_tokenizer, model[0].auto_model
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    rows = [encoding.ids for encoding in tokenizer.encode_batch_fast(texts)]
    order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
    outputs, start = [], 0
    while start < len(order):
        longest = len(rows[order[start]])
        batch = order[start : start + max(1, 131072 // longest)]
        start += len(batch)
        ids = torch.zeros(len(batch), longest, dtype=torch.long)
        for place, index in enumerate(batch):
            ids[place, : len(rows[index])] = torch.tensor(rows[index])
        ids = ids.cuda(non_blocking=True)
        mask = (ids != 0).long()
        with torch.inference_mode():
            hidden = transformer(input_ids=ids, attention_mask=mask).last_hidden_state
            weights = mask.unsqueeze(-1).to(hidden.dtype)
            pooled = (hidden * weights).sum(1) / weights.sum(1)
            outputs.append(torch.nn.functional.normalize(pooled.float(), dim=-1))
    vectors = np.empty((len(texts), outputs[0].shape[1]), np.float32)
    vectors[order] = torch.cat(outputs).cpu().numpy()
    return vectors


def measure(model: str, texts: list[str], dtype: str) -> dict[str, dict[str, float]]:
    """Texts per second of every method at every depth: the median of rounds in which all take turns."""
    half = len(texts) // 2
    before, timed = texts[:half], texts[half:]
    results: dict[str, dict[str, float]] = {}
    for layers in LAYERS:
        peer = sliced(model, layers, getattr(torch, dtype)) if layers else None
        rates: dict[str, list[float]] = {}

        def turn(name: str, encode: Callable[[list[str]], np.ndarray], rates: dict = rates) -> np.ndarray:
            torch.cuda.synchronize()
            begun = time.perf_counter()
            vectors = encode(timed)
            rates.setdefault(name, []).append(len(timed) / (time.perf_counter() - begun))
            return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

        sizes = list(BATCH_SIZES)
        for number in range(ROUNDS):
            ours = dt.load(model, device="cuda", dtype=dtype).cut(layers=layers)
            ours.encode(before, progress=False)
            turn("demitasse, new texts", partial(ours.encode, progress=False))
            vectors = turn("demitasse", partial(ours.encode, progress=False))
            del ours
            if peer is None:
                continue
            if number == 0:
                plain_loop(peer, before)
                peer.encode(before[:2048], batch_size=64, show_progress_bar=False)
            same = turn("plain loop", partial(plain_loop, peer))
            assert (vectors * same).sum(1).mean() > 0.999
            for size in sizes:
                name = f"sentence-transformers {size}"
                same = turn(name, partial(peer.encode, batch_size=size, show_progress_bar=False))
                assert (vectors * same).sum(1).mean() > 0.999
            sizes = [max(sizes, key=lambda size: rates[f"sentence-transformers {size}"][0])]  # the best goes on
        row = {name: float(np.median(rates[name])) for name in ("demitasse", "demitasse, new texts")}
        if peer is not None:
            theirs = float(np.median(rates[f"sentence-transformers {sizes[0]}"]))
            row |= {"plain loop": float(np.median(rates["plain loop"])), "sentence-transformers": theirs}
            row |= {"sentence-transformers batch": sizes[0], "ratio": row["demitasse"] / theirs}
        results[str(layers)] = {name: round(value, 2) for name, value in row.items()}
        print(layers, results[str(layers)], {k: [round(v) for v in r] for k, r in rates.items()}, flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--sentences", type=Path, required=True)
    parser.add_argument("--passages", type=Path, required=True)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = {
        "device": torch.cuda.get_device_name(),
        "python": platform.python_version(),
        "versions": {
            "demitasse": dt.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "sentence-transformers": sentence_transformers.__version__,
        },
        "dtype": options.dtype,
    }
    for name in ("sentences", "passages"):
        texts = read_lines(getattr(options, name))
        lengths = dt.load(options.model, device="cpu").reader.read(texts).lengths
        print(name, len(texts), "texts of", round(float(np.mean(lengths)), 1), "tokens", flush=True)
        rates = measure(options.model, texts, options.dtype)
        result[name] = {"texts": len(texts), "mean_tokens": float(np.mean(lengths)), "texts_a_second": rates}
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
