"""Texts of different depths in one batch, against a batch per depth, in turns.

    python benchmarks/mixed_depths.py --json benchmarks/results/mixed-depths-cpu.json
    python benchmarks/mixed_depths.py --device cuda --random --json benchmarks/results/mixed-depths-gpu.json

Every batch holds texts that want different numbers of layers. "Mixed" runs each layer once, over the texts that still
need it; "by depth" runs the texts of one depth after the other. Both use the same code otherwise (texts of very
different length never share a pass), and their vectors are compared. On the CPU the built-in model runs as the server
does: on every core a batch of its own. With `--random` a BERT of the
shape of all-MiniLM-L6-v2 with random weights runs on torch: nothing is downloaded, and no text is tokenized. Texts are
random token ids; sentences have 6 to 22 of them, passages 90 to 250.

A ratio is (time by depth) / (time mixed): above 1 mixing is faster. It is the median over rounds, with the range of the
middle half.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from demitasse.cut import Cut
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.mixed_depths import MixedTexts
from demitasse.encoding.packed_tokens import PackedTokens
from demitasse.encoding.vectors import Vectors
from demitasse.host.machine import cores, machine, versions
from demitasse.serving.batches import embed_texts

Embed = Callable[[MixedTexts], Vectors]
LENGTHS = {"sentences": (6, 22), "passages": (90, 250)}
CASES = {  # what and how many texts, by device
    "cpu": [("sentences", 4), ("sentences", 16), ("sentences", 32), ("passages", 2)],
    "cuda": [("sentences", 32), ("sentences", 256), ("sentences", 1024), ("sentences", 4096), ("passages", 256)],
}
DEPTHS = {"any of 0 to 6": range(7), "6, 3 or 1": (6, 3, 1), "6 or 3": (6, 3)}
VOCABULARY = 30522


def built_in() -> tuple[Encoder, Embed, Embed]:
    """The built-in model, and how it embeds mixed and by depth."""
    from demitasse.encoding.loading import load

    encoder = load(threads=1)
    return encoder, partial(embed_texts, encoder), partial(by_depth, encoder)


def by_depth(encoder: Encoder, texts: MixedTexts) -> Vectors:
    """The texts of one depth after the other."""
    depths = np.array([cut.layers for cut in texts.cuts])
    vectors = np.empty((len(texts), max(cut.dims for cut in texts.cuts)), np.float32)
    for depth in np.unique(depths):
        chosen = np.flatnonzero(depths == depth)
        vectors[chosen] = embed_texts(encoder, texts.chosen(chosen))
    return vectors


def random_minilm(device: str, dtype: str) -> tuple[Encoder, Embed, Embed]:
    """A random model of the shape of all-MiniLM-L6-v2, and how it embeds mixed and by depth."""
    import torch
    from transformers import BertConfig, BertModel

    from demitasse.encoding.exits import Exit
    from demitasse.encoding.pooling import Pooling
    from demitasse.encoding.reader import Reader
    from demitasse.torch_model.backbone import find_backbone
    from demitasse.torch_model.torch_encoder import TorchEncoder

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    model = BertModel(config, add_pooling_layer=False).to(device=device, dtype=getattr(torch, dtype)).eval()
    generator = np.random.default_rng(0)
    exits = {
        depth: Exit(generator.normal(0, 0.05, (384, 384)).astype(np.float32), np.zeros(384, np.float32))
        for depth in range(6)
    }
    reader = Reader(None, max_tokens=512)  # type: ignore[arg-type]  # no text is read
    encoder = TorchEncoder(find_backbone(model), reader, Pooling(), 384, exits=exits)
    assert encoder._layer_axes is not None, "texts of different depths do not share a pass"
    # The same model, which says that its texts cannot share a pass: all passes are launched, then waited for.
    apart = replace(encoder)
    apart.__dict__["_layer_axes"] = None
    return encoder, partial(embed_texts, encoder), partial(embed_texts, apart)


def random_texts(kind: str, count: int, depths: range | tuple[int, ...], seed: int) -> MixedTexts:
    """Texts of random lengths, each at one of `depths`."""
    generator = np.random.default_rng(seed)
    least, most = LENGTHS[kind]
    lengths = generator.integers(least, most, count, endpoint=True)
    ids = [generator.integers(1000, VOCABULARY, length).tolist() for length in lengths]
    cuts = [Cut(int(depth), 384) for depth in generator.choice(list(depths), count)]
    return MixedTexts(PackedTokens.of(ids), cuts, np.zeros(count, np.int64))


def seconds(embed: Embed, batches: list[MixedTexts], pool: ThreadPoolExecutor | None) -> float:
    begun = time.perf_counter()
    list(pool.map(embed, batches) if pool else map(embed, batches))
    return time.perf_counter() - begun


def compared(mixed: Embed, apart: Embed, case: tuple[str, int, str], rounds: int, workers: int) -> dict[str, Any]:
    """One row of the table."""
    kind, count, named = case
    pool = ThreadPoolExecutor(workers) if workers > 1 else None
    times: list[tuple[float, float]] = []
    worst = 0.0
    for number in range(rounds + 1):
        batches = [random_texts(kind, count, DEPTHS[named], workers * number + worker) for worker in range(workers)]
        if not number:  # not timed: opens what is opened on first use
            worst = max(float(np.abs(mixed(texts) - apart(texts)).max()) for texts in batches)
            continue
        turns = [(0, mixed), (1, apart)] if number % 2 else [(1, apart), (0, mixed)]
        taken = dict.fromkeys((0, 1), 0.0)
        for place, embed in turns:
            taken[place] = seconds(embed, batches, pool)
        times.append((taken[0], taken[1]))
    if pool:
        pool.shutdown()
    ratios = [apart / mixed for mixed, apart in times]
    low, middle, high = np.percentile(ratios, [25, 50, 75])
    return {
        "texts": kind,
        "batch": count,
        "depths": named,
        "mixed_ms": round(1000 * float(np.median([mixed for mixed, _ in times])), 3),
        "by_depth_ms": round(1000 * float(np.median([apart for _, apart in times])), 3),
        "ratio": round(float(middle), 3),
        "middle_half": [round(float(low), 3), round(float(high), 3)],
        "largest_difference": worst,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--random", action="store_true", help="a random model on torch instead of the built-in one")
    parser.add_argument("--dtype", default=None, help="of the random model: float16 on a GPU, float32 on the CPU")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.device != "cpu" and not options.random:
        parser.error("the built-in model runs on the CPU; add --random")
    dtype = options.dtype or ("float32" if options.device == "cpu" else "float16")
    encoder, mixed, apart = random_minilm(options.device, dtype) if options.random else built_in()
    workers = 1 if options.random else cores()  # torch uses all cores by itself
    cases = [(*case, named) for case in CASES["cpu" if options.device == "cpu" else "cuda"] for named in DEPTHS]
    rows = []
    print(f"{encoder.place}, {workers} at a time\n\n| texts | batch | layers | mixed ms | by depth ms | ratio |")
    print("|---|---|---|---|---|---|")
    for case in cases:
        row = compared(mixed, apart, case, options.rounds, workers)
        rows.append(row)
        low, high = row["middle_half"]
        print(
            f"| {row['texts']} | {row['batch']} | {row['depths']} | {row['mixed_ms']:.2f} | {row['by_depth_ms']:.2f} "
            f"| {row['ratio']:.2f} ({low:.2f}-{high:.2f}) |",
            flush=True,
        )
    # Half precision rounds more coarsely, and differently for other shapes.
    assert max(row["largest_difference"] for row in rows) < (1e-5 if dtype == "float32" else 2e-2), "vectors differ"
    result = {"machine": machine(), "versions": versions(), "place": encoder.place, "workers": workers}
    written = json.dumps({**result, "rounds": options.rounds, "rows": rows}, indent=1)
    print(f"\n{written}")
    if options.json:
        options.json.write_text(written + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
