"""Everything that goes to the GPU machine: files as parts of one size, and the code with an index of them.

    python research/aligned/make_parts.py PACKED UPLOAD

UPLOAD (a folder that git ignores, such as scratch/aligned) gets code/ and part00/part00.bin, part01/part01.bin …; what
was there under these names is replaced. Files come in the order in which they are needed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
from pathlib import Path

FILES = ("minilm.safetensors", "train.bin", "nomic.safetensors", "mpnet.safetensors", "begun.safetensors", "eval.bin")
DEVICE = Path(__file__).parent / "device"


class Parts:
    """Writes one stream of bytes as parts of `size`."""

    def __init__(self, out: Path, size: int) -> None:
        self.out, self.size, self.at = out, size, 0

    def write(self, block: bytes) -> None:
        while block:
            number, used = divmod(self.at, self.size)
            now, block = block[: self.size - used], block[self.size - used :]
            folder = self.out / f"part{number:02d}"
            folder.mkdir(exist_ok=True)
            with open(folder / f"part{number:02d}.bin", "ab") as file:
                file.write(now)
            self.at += len(now)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packed", type=Path)
    parser.add_argument("upload", type=Path)
    parser.add_argument("--part-size", type=int, default=28_000_000, help="bytes (default: 28,000,000)")
    options = parser.parse_args()
    upload = options.upload
    upload.mkdir(parents=True, exist_ok=True)
    for old in (*upload.glob("part[0-9][0-9]"), *upload.glob("code")):
        shutil.rmtree(old)
    parts, index = Parts(upload, options.part_size), []
    for name in FILES:
        if name == "begun.safetensors" and not (options.packed / name).exists():
            continue  # a run from the released model
        block = (options.packed / name).read_bytes()
        digest = hashlib.sha256(block).hexdigest()
        index.append({"name": name, "begin": parts.at, "size": len(block), "sha256": digest})
        first = parts.at // options.part_size
        parts.write(block)
        print(f"{name}: parts {first} to {(parts.at - 1) // options.part_size}, {len(block):,} bytes")
    shutil.copytree(DEVICE, upload / "code", ignore=shutil.ignore_patterns("__pycache__"))
    (upload / "code" / "index.json").write_text(json.dumps({"part_size": options.part_size, "files": index}, indent=1))


if __name__ == "__main__":
    main()
