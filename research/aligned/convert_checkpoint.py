"""A checkpoint of explore.py -> a demitasse folder for torch, checked against explore.py's own forward pass.

    python research/aligned/convert_checkpoint.py CHECKPOINT OUT --base TEACHERS/minilm

CHECKPOINT is runs/NAME/model.pt, or the pieces NAME.00 NAME.01 … that `remote.py pack` wrote (give NAME.00).
"""

from __future__ import annotations

import argparse
import io
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

import demitasse as dt
from demitasse.encoding.exits import Exit
from demitasse.host.bundled import corpus
from demitasse.torch_model.readout import NORMALIZE, Dense

sys.path.insert(0, str(Path(__file__).parent / "device"))
from packed import Packed
from student import DEPTH, Student, states_of

OF_A_RUN = ("name", "until", "resume", "start", "save_every", "no_score")  # options that say nothing of the model


def checkpoint(path):
    if path.suffix != ".00":
        return torch.load(path, map_location="cpu")
    pieces = sorted(path.parent.glob(path.stem + ".[0-9][0-9]"))
    return torch.load(io.BytesIO(b"".join(piece.read_bytes() for piece in pieces)), map_location="cpu")


def converted(student, base, options):
    """The released model's encoder with the student's weights and exits."""
    problems = base.backbone.model.load_state_dict(student.bert(), strict=False)
    absent = [key for key in problems.missing_keys if "pooler" not in key and "position_ids" not in key]
    assert not problems.unexpected_keys, problems.unexpected_keys
    assert not absent, absent
    weight, bias = (p.detach().numpy() for p in (student.exit_w, student.exit_b))
    exits = {depth: Exit(weight[depth].copy(), bias[depth].copy()) for depth in range(DEPTH)}
    last = Dense(torch.from_numpy(weight[DEPTH].copy()), torch.from_numpy(bias[DEPTH].copy()))
    kept = {name: value for name, value in options.items() if value is not None and name not in OF_A_RUN}
    objective = {"name": "aligned", **kept}
    return replace(base, exits=exits, head=(NORMALIZE, last), record={**base.record, "objective": objective})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--base", required=True)
    options = parser.parse_args()
    saved = checkpoint(options.checkpoint)
    student = Student()
    student.load_state_dict({name: weight.float() for name, weight in saved["weights"].items()})
    encoder = converted(student, dt.load(options.base, device="cpu"), saved.get("options", {}))
    encoder.save(options.out, force=True)
    again = dt.load(options.out, device="cpu")
    texts = [*corpus()[:40], "a small cup", "long " * 300]
    rows = [np.asarray(again.reader.tokenizer.tokenize([text]).ids_of(0), np.uint16) for text in texts]
    lens = np.array([len(row) for row in rows], np.uint16)
    tokens = Packed(np.concatenate(rows), lens, np.zeros(len(rows), np.uint8), "cpu")
    with torch.inference_mode():
        ours = functional.normalize(student.embedded(states_of(student, tokens, np.arange(len(rows)))), dim=-1).numpy()
    for depth in range(DEPTH + 1):
        theirs = again.cut(layers=depth).encode(texts)
        print(f"depth {depth}: largest difference {np.abs(theirs - ours[depth]).max():.2e}")
    print(again, again.exit_depths)


if __name__ == "__main__":
    main()
