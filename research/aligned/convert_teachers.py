"""The teachers' weights -> one fp16 safetensors file each.

    python research/aligned/convert_teachers.py TEACHERS PACKED

TEACHERS is what extract_teachers.py wrote; PACKED gets nomic, mpnet and minilm.safetensors. Names of tensors stay.
"""

from __future__ import annotations

import argparse
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from safetensors.torch import load_file, save_file

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9
DTYPES = {0: np.float32, 1: np.float16}


class Gguf:
    """Reads a GGUF file of fp32 and fp16 tensors."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        assert file.read(4) == b"GGUF"
        self._number("I")  # the version
        tensors, facts = self._number("Q"), self._number("Q")
        self.facts = {}
        for _ in range(facts):
            name = self._text()
            self.facts[name] = self._value(self._number("I"))
        self.infos = [self._info() for _ in range(tensors)]
        size = self.facts.get("general.alignment", 32)
        self.begin = -(-file.tell() // size) * size

    def _number(self, kind: str) -> Any:
        return struct.unpack("<" + kind, self.file.read(struct.calcsize("<" + kind)))[0]

    def _text(self) -> str:
        return self.file.read(self._number("Q")).decode("utf-8", "replace")

    def _value(self, kind: int) -> Any:
        if kind == TEXT:
            return self._text()
        if kind == LIST:
            of, count = self._number("I"), self._number("Q")
            return [self._value(of) for _ in range(count)]
        return self._number(NUMBERS[kind])

    def _info(self) -> tuple[str, list[int], int, int]:
        name = self._text()
        shape = [self._number("Q") for _ in range(self._number("I"))]
        return name, shape, self._number("I"), self._number("Q")

    def tensors(self) -> dict[str, torch.Tensor]:
        found = {}
        for name, shape, kind, offset in self.infos:
            dtype = np.dtype(DTYPES[kind])
            self.file.seek(self.begin + offset)
            block = self.file.read(int(np.prod(shape)) * dtype.itemsize)
            found[name] = torch.from_numpy(np.frombuffer(block, dtype).reshape(shape[::-1]).copy())
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("teachers", type=Path)
    parser.add_argument("packed", type=Path)
    options = parser.parse_args()
    options.packed.mkdir(parents=True, exist_ok=True)
    with open(options.teachers / "nomic.gguf", "rb") as file:
        weights = {"nomic": Gguf(file).tensors()}
    weights["mpnet"] = load_file(options.teachers / "mpnet" / "all-mpnet-base-v2" / "model.safetensors")
    weights["minilm"] = load_file(options.teachers / "minilm" / "model.safetensors")
    for name, tensors in weights.items():
        kept = {n: t for n, t in tensors.items() if t.is_floating_point() and not n.startswith("pooler")}
        save_file({n: t.half().contiguous() for n, t in kept.items()}, options.packed / f"{name}.safetensors")
        print(name, len(kept), "tensors")


if __name__ == "__main__":
    main()
