"""train.bin -> train.npz and sources.json; eval.bin -> eval.npz."""

import io
import json
import lzma
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from places import folder, write_json


def unpack_eval():
    with open(folder("eval.bin"), "rb") as file, open(folder("eval.npz.new"), "wb") as out:
        out.write(lzma.decompress(file.read()))
    os.replace(folder("eval.npz.new"), folder("eval.npz"))


def unpack_train():
    with open(folder("train.bin"), "rb") as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        blocks = [file.read(size) for size in (*head["chunks"], head["rest"])]
    with ThreadPoolExecutor(16) as pool:  # lzma lets go of the interpreter
        *chunks, rest = pool.map(lzma.decompress, blocks)
    write_json(folder("sources.json"), head["sources"])
    ids = np.concatenate([np.frombuffer(chunk, np.uint16) for chunk in chunks])
    with open(folder("train.npz.new"), "wb") as out:
        np.savez(out, ids=ids, **dict(np.load(io.BytesIO(rest))))
    os.replace(folder("train.npz.new"), folder("train.npz"))


if __name__ == "__main__":
    begun = time.time()
    unpack_eval() if sys.argv[1] == "eval.bin" else unpack_train()
    print(sys.argv[1], f"unpacked in {time.time() - begun:.1f} s", flush=True)
