"""train_raw.npz and eval_raw.npz -> train.bin and eval.bin, half as large, for the way to the GPU machine.

python research/aligned/compress.py PACKED
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

CHUNK = 4_000_000  # ids that are compressed on their own, so that they can be unpacked at the same time
PRESET = 4


def compressed(block: bytes) -> bytes:
    return lzma.compress(block, preset=PRESET)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packed", type=Path)
    packed = parser.parse_args().packed
    arrays = dict(np.load(packed / "train_raw.npz"))
    ids = arrays.pop("ids")
    with ProcessPoolExecutor(2) as pool:
        chunks = list(pool.map(compressed, (ids[i : i + CHUNK].tobytes() for i in range(0, len(ids), CHUNK))))
    others = io.BytesIO()
    np.savez(others, **arrays)
    rest = compressed(others.getvalue())
    sources = json.loads((packed / "sources.json").read_text())
    head = json.dumps({"chunks": [len(c) for c in chunks], "rest": len(rest), "sources": sources}).encode()
    with open(packed / "train.bin", "wb") as file:
        file.write(len(head).to_bytes(8, "little"))
        for block in (head, *chunks, rest):
            file.write(block)
    (packed / "eval.bin").write_bytes(compressed((packed / "eval_raw.npz").read_bytes()))


if __name__ == "__main__":
    main()
