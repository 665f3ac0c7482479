"""What each cut of an encoder weighs."""

from __future__ import annotations

from typing import Any

from demitasse.cut import grid, usual_dims
from demitasse.encoding.encoder import Encoder


def describe(encoder: Encoder) -> dict[str, Any]:
    """Everything `demitasse info` shows, as plain values."""
    full = encoder.full
    return {
        "full": str(full),
        "layers": full.layers,
        "dims": full.dims,
        "architecture": encoder.architecture,
        "runs_on": encoder.place,
        "pooling": str(encoder.pooling),
        "max_tokens": encoder.reader.max_tokens,
        "prompts": dict(encoder.reader.prompts),
        "exits": encoder.exit_depths,
        "source": encoder.record.get("source"),
        "objective": encoder.record.get("objective"),
        "data": encoder.record.get("data"),
        "held_out": {
            entry["cut"]: entry["held_out"] for entry in encoder.record.get("cuts") or () if "held_out" in entry
        },
        "cuts": [
            {
                "cut": str(cut),
                "exit": cut.layers in encoder.exit_depths,
                "model_bytes": encoder.model_bytes(cut),
                "vector_bytes": 4 * cut.dims,
            }
            for cut in grid(range(full.layers + 1), usual_dims(full.dims))
        ],
    }


def size_table(facts: dict[str, Any]) -> str:
    """The facts of `describe` for people: one row a depth, since dims hardly change what a model weighs."""
    lines = [f"{facts['full']}  {facts['architecture']}, {facts['pooling']} pooling, {facts['max_tokens']} tokens"]
    lines.append(f"runs on {facts['runs_on']}")
    if facts["prompts"]:
        lines.append("prompts: " + ", ".join(f"{name} {text!r}" for name, text in facts["prompts"].items()))
    widest = [row for row in facts["cuts"] if row["vector_bytes"] == 4 * facts["dims"]]
    lines += ["", "layers  exit  model MB  agreement"]
    for row in reversed(widest):
        layers, exit_ = row["cut"].partition("x")[0], "yes" if row["exit"] else "-"
        measured = facts["held_out"].get(row["cut"])
        agreement = f"{measured['similarity']:.3f}" if measured else "-"
        size = f"{row['model_bytes'] / 1e6:>8.1f}"
        lines.append(f"{layers:>6}  {exit_:>4}  {size}  {agreement:>9}")
    if facts["held_out"]:
        lines.append("agreement: correlation of similarities with the full model, on held-out sentences")
    lines += ["", "  dims  bytes a vector  vectors in a GB"]
    for row in (row for row in facts["cuts"] if row["cut"].startswith(f"{facts['layers']}x")):
        per_gigabyte = 10**9 // row["vector_bytes"]
        lines.append(f"{row['vector_bytes'] // 4:>6}  {row['vector_bytes']:>14,}  {per_gigabyte:>15,}")
    return "\n".join(lines)
