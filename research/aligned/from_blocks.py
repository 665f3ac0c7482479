"""The built-in model's int8 blocks as a folder for torch, so that a run can start from them and not from MiniLM.

    python research/aligned/from_blocks.py src/demitasse/assets/model BASE OUT --packed PACKED

Weights are the rounded ones; biases keep what int8 takes off them. BASE is all-MiniLM-L6-v2 (for its config and
tokenizer). It prints how far the weights are from those of BASE, and cosines of the vectors of both. PACKED gets
begun.safetensors, for `explore.py --weights begun`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from safetensors.torch import save_file

import demitasse as dt
from demitasse.host.bundled import corpus

sys.path.insert(0, str(Path(__file__).parent / "device"))
from convert_checkpoint import converted
from student import DEPTH, Student

LINEARS = {  # of a layer, in the order in which the graph has them
    "linear": "attention.self.query",
    "linear_1": "attention.self.key",
    "linear_2": "attention.self.value",
    "linear_3": "attention.output.dense",
    "linear_4": "intermediate.dense",
    "linear_5": "output.dense",
}
NORMS = {"layer.attention.output.LayerNorm": "attention.output.LayerNorm", "layer.output.LayerNorm": "output.LayerNorm"}


def tensors_of(path: Path) -> tuple[onnx.GraphProto, dict[str, np.ndarray]]:
    graph = onnx.load(path).graph
    return graph, {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}


def embeddings(path: Path) -> dict[str, np.ndarray]:
    _, has = tensors_of(path)
    return {
        "embeddings.word_embeddings.weight": has["embedding.table"] * has["embedding.table.scales"],
        "embeddings.position_embeddings.weight": has["embedding_2.table"] * has["embedding_2.table.scales"],
        "embeddings.token_type_embeddings.weight": has["model.embeddings.token_type_embeddings.weight"],
        "embeddings.LayerNorm.weight": has["model.embeddings.LayerNorm.weight"],
        "embeddings.LayerNorm.bias": has["model.embeddings.LayerNorm.bias"],
    }


def layer(path: Path) -> dict[str, np.ndarray]:
    """Weights as torch has them, (out, in); a factor that evens a channel before rounding goes into its weights."""
    graph, has = tensors_of(path)
    before = {node.output[0]: node for node in graph.node}
    found = {}
    for node in graph.node:
        if node.op_type == "MatMulIntegerToFloat":
            name, into = node.output[0], LINEARS[node.output[0]]
            weight = has[node.input[1]].astype(np.float32) * has[node.input[3]]
            evened = before.get(before[node.input[0]].input[0])
            if evened is not None and evened.op_type == "Mul" and evened.input[1].endswith(".factors"):
                weight = has[evened.input[1]][:, None] * weight
            found[f"{into}.weight"], found[f"{into}.bias"] = weight.T, has[f"{name}.weight.bias"]
    for name, into in NORMS.items():
        found |= {f"{into}.{part}": has[f"{name}.{part}"] for part in ("weight", "bias")}
    return found


def exit_of(path: Path) -> tuple[np.ndarray, np.ndarray]:
    graph, has = tensors_of(path)
    (gemm,) = [node for node in graph.node if node.op_type == "Gemm"]
    turned = any(attribute.name == "transB" and attribute.i for attribute in gemm.attribute)
    weight = has[gemm.input[1]]
    return np.array(weight if turned else weight.T), np.array(has[gemm.input[2]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("blocks", type=Path)
    parser.add_argument("base")
    parser.add_argument("out", type=Path)
    parser.add_argument("--packed", type=Path)
    options = parser.parse_args()
    blocks, base = dt.load(options.blocks), dt.load(options.base, device="cpu")
    weights = embeddings(options.blocks / "embeddings.onnx")
    for number in range(DEPTH):
        own = layer(options.blocks / f"layer_{number + 1}.onnx")
        weights |= {f"encoder.layer.{number}.{name}": value for name, value in own.items()}
    state = {name: torch.from_numpy(np.array(value, np.float32)) for name, value in weights.items()}
    before = {name: value.clone() for name, value in base.backbone.model.state_dict().items() if name in state}
    moved = sum((state[name] - before[name]).square().sum() for name in state)
    norm = sum(value.square().sum() for value in before.values())
    print(f"moved by {(moved / norm) ** 0.5:.2f} times the norm of BASE")
    student = Student().read_bert(state)
    with torch.no_grad():
        for number in range(DEPTH + 1):
            weight, bias = exit_of(options.blocks / f"exit_{number}.onnx")
            student.exit_w[number], student.exit_b[number] = torch.from_numpy(weight), torch.from_numpy(bias)
    converted(student, base, {}).save(options.out, force=True)
    if options.packed:
        halves = {name: value.half().contiguous() for name, value in state.items()}
        save_file(halves, options.packed / "begun.safetensors")
    again = dt.load(options.out, device="cpu")
    texts = list(corpus()[:300])
    for number in range(DEPTH + 1):
        ours, theirs = (encoder.cut(layers=number).encode(texts) for encoder in (again, blocks))
        cosines = (ours * theirs).sum(1)
        print(f"depth {number}: cosine to int8 {cosines.mean():.4f}, at least {cosines.min():.4f}")


if __name__ == "__main__":
    main()
