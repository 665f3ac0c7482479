"""Blocks in int8 as blocks in float32: the same weights, and activations that are not rounded.

    python research/widen_blocks.py src/demitasse/assets/model WIDE

For comparisons of speed, and of what int8 activations cost, with nothing but what ships. The biases are those of int8,
which make up for what rounding adds on average.
"""

from __future__ import annotations

import argparse
import json
import shutil
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper


def widened(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph with float products of what its int8 products round."""
    graph = model.graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    rounded = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "QuantizeLinear"}
    nodes = []
    for node in graph.node:
        if node.op_type == "MatMulIntegerToFloat":
            _, weight, _, scales, _, *rest = node.input
            values = numpy_helper.to_array(tensors[weight]) * numpy_helper.to_array(tensors[scales])
            graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), f"{weight}.wide"))
            product, bias = node.output[0], rest[1] if len(rest) > 1 else None
            into = f"{product}.product" if bias else product
            nodes.append(helper.make_node("MatMul", [rounded[node.input[0]], f"{weight}.wide"], [into]))
            if bias:
                nodes.append(helper.make_node("Add", [into, bias], [product]))
        elif node.op_type != "QuantizeLinear":
            nodes.append(node)
    read = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept)
    onnx.checker.check_model(model)
    return model


def widen(blocks: Path, out: Path) -> None:
    manifest = json.loads((blocks / "demitasse.json").read_text())
    out.mkdir(parents=True)
    for name in manifest["files"]:
        if name.endswith(".onnx"):
            onnx.save(widened(onnx.load(blocks / name)), out / name)
        else:
            shutil.copy(blocks / name, out / name)
        written = (out / name).read_bytes()
        manifest["files"][name], manifest["sha256"][name] = len(written), sha256(written).hexdigest()
    (out / "demitasse.json").write_text(json.dumps(manifest | {"precision": "fp32"}, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("blocks", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    widen(options.blocks, options.out)


if __name__ == "__main__":
    main()
