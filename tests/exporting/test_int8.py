from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from demitasse.encoding.ort_sessions import run_model
from demitasse.exporting.int8 import quantized

WEIGHT = np.random.default_rng(0).uniform(-1, 1, (32, 48)).astype(np.float32)
BIAS = np.random.default_rng(1).standard_normal(48).astype(np.float32)


def model(
    nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], kind: int = TensorProto.FLOAT
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", kind, [None, None] if kind == TensorProto.INT64 else [None, None, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


def linear() -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Add", ["z", "b"], ["y"])]
    return model(nodes, {"w": WEIGHT, "b": BIAS})


def feeds(outlier: float = 1.0) -> list[dict[str, np.ndarray]]:
    # Every channel as large as the others, but for the outlier.
    batches = np.random.default_rng(2).uniform(-1, 1, (8, 4, 10, 32)).astype(np.float32)
    batches[..., 3] *= outlier
    return [{"x": batch} for batch in batches]


def error(exact: onnx.ModelProto, small: onnx.ModelProto, given: list[dict[str, np.ndarray]]) -> float:
    pairs = zip(run_model(exact, given), run_model(small, given), strict=True)
    return float(np.mean([np.abs(a["y"] - b["y"]).mean() / np.abs(a["y"]).mean() for a, b in pairs]))


def test_a_product_in_int8_is_close_and_keeps_its_bias() -> None:
    given = feeds()
    small = quantized(linear(), given)
    assert [node.op_type for node in small.graph.node] == ["QuantizeLinear", "MatMulIntegerToFloat"]
    assert {tensor.data_type for tensor in small.graph.initializer if len(tensor.dims) == 2} == {TensorProto.INT8}
    assert error(linear(), small, given) < 0.02


def test_an_outlier_channel_is_smoothed_first() -> None:
    given = feeds(outlier=100)
    small = quantized(linear(), given)
    assert "Mul" in [node.op_type for node in small.graph.node]
    assert error(linear(), small, given) < 0.02


def test_a_channel_that_is_large_for_every_token_moves_nothing() -> None:
    given = feeds()
    for batch in given:
        batch["x"][..., 3] = 20
    small = quantized(linear(), given)
    pairs = zip(run_model(linear(), given), run_model(small, given), strict=True)
    moved = np.concatenate([(a["y"] - b["y"]).reshape(-1, 48) for a, b in pairs])
    assert np.abs(moved.mean(0)).mean() < 0.1 * moved.std()


def test_a_gemm_is_a_product_too() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["rows"]),
        helper.make_node("Gemm", ["rows", "w", "b"], ["y"], transB=1),
    ]
    exact = model(nodes, {"shape": np.array([-1, 32]), "w": np.ascontiguousarray(WEIGHT.T), "b": BIAS})
    given = feeds()
    small = quantized(exact, given)
    assert "Gemm" not in [node.op_type for node in small.graph.node]
    assert error(exact, small, given) < 0.02


@pytest.mark.parametrize("rows", [300, 20])
def test_only_large_tables_are_stored_in_int8(rows: int) -> None:
    generator = np.random.default_rng(3)
    table = (generator.standard_normal((rows, 32)) * generator.uniform(0.01, 10, (rows, 1))).astype(np.float32)
    exact = model([helper.make_node("Gather", ["table", "x"], ["y"])], {"table": table}, TensorProto.INT64)
    given = [{"x": np.array([[0, 3, 19]])}]
    small = quantized(exact, given)
    assert error(exact, small, given) < 0.02
    assert (len(small.SerializeToString()) < len(exact.SerializeToString()) / 3) == (rows == 300)


def test_the_original_is_not_changed() -> None:
    exact = linear()
    before = exact.SerializeToString()
    quantized(exact, feeds())
    assert exact.SerializeToString() == before
