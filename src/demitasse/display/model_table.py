"""What `demitasse info` shows: an encoder's facts, and the size of each of its cuts."""

from __future__ import annotations

from typing import Any

from demitasse.cut import grid, usual_dims
from demitasse.encoding.encoder import Encoder

_AGREEMENTS = {
    "neighbours": "share of the 10 nearest neighbours that are those of",
    "similarity": "correlation of similarities with",
}


def describe(encoder: Encoder) -> dict[str, Any]:
    """Everything `demitasse info` shows, as plain JSON values."""
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
        "teacher_space": None if encoder.teacher_space is None else encoder.teacher_space.described(),
        "source": encoder.record.get("source"),
        "objective": encoder.record.get("objective"),
        "data": encoder.record.get("data"),
        "held_out": {
            entry["cut"]: entry["held_out"] for entry in encoder.record.get("cuts") or () if entry.get("held_out")
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
    """The facts of `describe` as a table: one line per depth, since dims hardly change the size of a model."""
    lines = [f"{facts['full']}  {facts['architecture']}, {facts['pooling']} pooling, {facts['max_tokens']} tokens"]
    lines.append(f"runs on {facts['runs_on']}")
    if facts["prompts"]:
        lines.append("prompts: " + ", ".join(f"{name} {text!r}" for name, text in facts["prompts"].items()))
    if facts["teacher_space"]:
        teachers = (f"{one['name']} {one['weight']:.0%}" for one in facts["teacher_space"]["teachers"])
        lines.append(f"aligned with {', '.join(teachers)}")
    widest = [size for size in facts["cuts"] if size["vector_bytes"] == 4 * facts["dims"]]
    # Models of earlier versions do not have the first.
    known = [{*one} for one in facts["held_out"].values()]
    measured = next((name for name in _AGREEMENTS if known and all(name in one for one in known)), "")
    lines += ["", "layers  exit  model MB  agreement"]
    for size in reversed(widest):
        layers, exit_ = size["cut"].partition("x")[0], "yes" if size["exit"] else "-"
        held_out = facts["held_out"].get(size["cut"])
        agreement = f"{held_out[measured]:.3f}" if held_out and measured else "-"
        megabytes = f"{size['model_bytes'] / 1e6:>8.1f}"
        lines.append(f"{layers:>6}  {exit_:>4}  {megabytes}  {agreement:>9}")
    if measured:
        lines.append(f"agreement: {_AGREEMENTS[measured]} the full model, on held-out sentences")
    lines += ["", "  dims  bytes per vector  vectors per GB"]
    for size in (size for size in facts["cuts"] if size["cut"].startswith(f"{facts['layers']}x")):
        per_gigabyte = 10**9 // size["vector_bytes"]
        lines.append(f"{size['vector_bytes'] // 4:>6}  {size['vector_bytes']:>16,}  {per_gigabyte:>14,}")
    return "\n".join(lines)
