"""Texts per second on a GPU, texts that are met for the first time: sentence-transformers, a plain loop and demitasse.

    python benchmarks/encode_gpu.py MODEL --sentences sentences.txt --passages passages.jsonl --json results.json

MODEL is a sentence-transformers folder. SENTENCES has one text per line, PASSAGES one JSON object per line with `text`
(and `title`); of each, the first half warms up and the second half is timed. Every text of a corpus is met once, and
the first time costs most (new words, new shapes, memory), so each method runs in a process of its own, in turns, and
encodes new texts once. A million sentences, made from SENTENCES by exchanging two words of each for others, are timed
with an encoder that was just loaded, so that what it starts to help it is counted too; the peers encode a twentieth of
them. "embed" is `demitasse embed` of the same million, from a text file to a Parquet dataset of int8 vectors, with an
encoder that was just loaded; it needs pyarrow. All others give float32 vectors on the host, and all compute in the same
number format. "again" is the same texts once more.

sentence-transformers runs at the best of its batch sizes and slices layers by hand. The plain loop is what one would
write by hand: one call of the tokenizers library, length-sorted batches of 131,072 tokens, no waiting between batches.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

Encode = Callable[[list[str]], np.ndarray]
BATCH_SIZES = (256, 1024)  # smaller ones were slower in every earlier run
PEERS = ("sentence-transformers", "plain loop")
SHARE = 20  # peers encode one in so many of the million


def read_lines(path: Path) -> list[str]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        rows = lines.read().splitlines()
    if ".jsonl" in path.name:
        return [" ".join(filter(None, (row.get("title"), row["text"]))) for row in map(json.loads, rows)]
    return rows


def varied(sentences: list[str], count: int) -> list[str]:
    """`count` different texts as long as `sentences`, each with two words of others."""
    chance = random.Random(0)
    words = sorted({word for sentence in sentences for word in sentence.split()})
    made: dict[str, None] = {}
    while len(made) < count:
        text = chance.choice(sentences).split()
        for word in chance.choices(words, k=2):
            text[chance.randrange(len(text))] = word
        made[" ".join(text)] = None
    return list(made)


def plain_loop(model: Any, texts: list[str]) -> np.ndarray:
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


def encoders(method: str, model: str, layers: int, device: str, dtype: str) -> Callable[[int], Encode]:
    """Makes an encoder for a batch size, which only sentence-transformers looks at."""
    if method == "demitasse":
        import demitasse as dt

        ours = dt.load(model, device=device, dtype=dtype).cut(layers=layers)
        return lambda _: lambda texts: np.asarray(ours.encode(texts, progress=False))
    from sentence_transformers import SentenceTransformer

    peer = SentenceTransformer(model, device=device, model_kwargs={"dtype": getattr(torch, dtype)})
    encoder = peer[0].auto_model.encoder
    encoder.layer = encoder.layer[:layers]
    if method == "plain loop":
        return lambda _: lambda texts: plain_loop(peer, texts)
    return lambda size: lambda texts: np.asarray(peer.encode(texts, batch_size=size, show_progress_bar=False))


def embed_rate(model: str, layers: int, device: str, dtype: str, texts: list[str]) -> float:
    """Texts per second of `demitasse embed`, files and all."""
    import demitasse as dt

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "texts.txt")
        source.write_text("\n".join(texts), encoding="utf-8")
        encoder = dt.load(model, device=device, dtype=dtype).cut(layers=layers)
        begun = time.perf_counter()
        summary = dt.embed_corpus(encoder, source, Path(folder, "out"), dt.CorpusOptions(vectors="int8"))
        assert summary.counts.rows == len(texts)
        return len(texts) / (time.perf_counter() - begun)


def timed(encode: Encode, texts: list[str]) -> tuple[float, np.ndarray]:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    begun = time.perf_counter()
    vectors = encode(texts)
    return len(texts) / (time.perf_counter() - begun), vectors


def one_turn(method: str, layers: int, options: argparse.Namespace) -> dict[str, Any]:
    """Texts per second of each set, the first time and again, and some vectors to compare."""
    how = (str(options.model), layers, options.device, options.dtype)
    make = encoders(method, *how)
    sets = {name: read_lines(getattr(options, name)) for name in ("sentences", "passages")}
    found: dict[str, Any] = {}
    for name, texts in sets.items():
        half = len(texts) // 2
        sizes = BATCH_SIZES if method == "sentence-transformers" else BATCH_SIZES[:1]
        tried = {}
        for size in sizes:
            encode = make(size)
            encode(texts[:half])
            first, vectors = timed(encode, texts[half:])
            tried[size] = (first, timed(encode, texts[half:])[0])
        best = max(tried, key=lambda size: tried[size][0])
        found[name] = {"new": tried[best][0], "again": tried[best][1], "vectors": vectors[:50].tolist()}
        if method == "sentence-transformers":
            found[name]["batch"] = best
    million = varied(sets["sentences"], options.million)
    if method == "demitasse":
        fresh = encoders(method, *how)(0)  # nothing remembered, nothing started
        found["million"] = {"new": timed(fresh, million)[0], "embed": embed_rate(*how, million)}
    else:
        encode = make(found["sentences"].get("batch", 0))
        found["million"] = {"new": timed(encode, million[: len(million) // SHARE])[0]}
    return found


def compared(turns: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """By set: the median rate of each method, and how many times the first peer's."""
    result: dict[str, Any] = {}
    for name in ("sentences", "passages", "million"):
        row = {method: float(np.median([turn[name]["new"] for turn in own])) for method, own in turns.items()}
        theirs = row["sentence-transformers"]
        row["ratio"] = row["demitasse"] / theirs
        if name != "million":
            row["demitasse, again"] = float(np.median([turn[name]["again"] for turn in turns["demitasse"]]))
            row["sentence-transformers batch"] = turns["sentence-transformers"][-1][name]["batch"]
        else:
            row["embed"] = float(np.median([turn[name]["embed"] for turn in turns["demitasse"]]))
            row["embed by encode"] = float(
                np.median([turn[name]["embed"] / turn[name]["new"] for turn in turns["demitasse"]])
            )
        ratios = [
            ours[name]["new"] / peer[name]["new"]
            for ours, peer in zip(turns["demitasse"], turns["sentence-transformers"], strict=True)
        ]
        result[name] = {key: round(value, 2) for key, value in row.items()}
        result[name]["ratios"] = [round(ratio, 2) for ratio in ratios]
    return result


def check_equal(turns: dict[str, list[dict[str, Any]]]) -> None:
    """All methods must have given the same vectors."""
    for name in ("sentences", "passages"):
        units = {}
        for method, own in turns.items():
            vectors = np.array(own[0][name]["vectors"])
            units[method] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        for method, vectors in units.items():
            cosine = (vectors * units["demitasse"]).sum(1).min()
            assert cosine > 0.999, f"{method} and demitasse differ on {name}: cosine {cosine}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--sentences", type=Path, required=True)
    parser.add_argument("--passages", type=Path, required=True)
    parser.add_argument("--device", default="cuda", help="cpu only tries the script")
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--layers", type=int, nargs="+", default=[6, 1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--million", type=int, default=1_000_000)
    parser.add_argument("--peers", nargs="*", default=PEERS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--turn", help=argparse.SUPPRESS)  # what a process of its own does
    options = parser.parse_args()
    if options.turn:
        print(json.dumps(one_turn(options.turn, options.layers[0], options)))
        return
    import sentence_transformers
    import transformers

    import demitasse as dt

    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "python": platform.python_version(),
        "versions": {
            "demitasse": dt.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "sentence-transformers": sentence_transformers.__version__,
        },
        "dtype": options.dtype,
        "sets": {},
        "layers": {},
    }
    reader = dt.load(options.model, device="cpu").reader
    for name in ("sentences", "passages"):
        texts = read_lines(getattr(options, name))
        timed_texts = texts[len(texts) // 2 :]
        mean = float(np.mean(reader.read(timed_texts).lengths))
        result["sets"][name] = {"texts": len(timed_texts), "mean_tokens": round(mean, 1)}
    million = varied(read_lines(options.sentences), min(options.million, 10_000))
    result["sets"]["million"] = {
        "texts": options.million,
        "mean_tokens": round(float(np.mean(reader.read(million).lengths)), 1),
    }
    for layers in options.layers:
        turns: dict[str, list[dict[str, Any]]] = {}
        for _ in range(options.rounds):
            for method in ("demitasse", *options.peers):
                command = [sys.executable, __file__, *sys.argv[1:], "--turn", method, "--layers", str(layers)]
                ended = subprocess.run(command, capture_output=True, text=True, check=False)
                if ended.returncode:
                    sys.exit(ended.stderr)
                turns.setdefault(method, []).append(json.loads(ended.stdout.splitlines()[-1]))
                rates = {name: round(row["new"]) for name, row in turns[method][-1].items()}
                print(layers, "layers,", method, rates, flush=True)
        check_equal(turns)
        result["layers"][str(layers)] = compared(turns)
        print(layers, result["layers"][str(layers)], flush=True)
        if options.json:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
