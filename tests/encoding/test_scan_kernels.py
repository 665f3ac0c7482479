"""The arithmetic of a search, each part against a slow and obvious version."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from demitasse.encoding import scan_kernels as kernels
from demitasse.encoding.vectors import store, unit_length
from demitasse.host.bundled import INT8_PRODUCTS


def vectors(count: int, dims: int, seed: int = 0) -> np.ndarray:
    return unit_length(np.random.default_rng(seed).standard_normal((count, dims)))


@pytest.mark.parametrize("dims", [1, 8, 64, 65, 384])
def test_bits_are_the_signs_in_columns(dims: int) -> None:
    rows = vectors(70, dims)
    columns = kernels.sign_bits(rows)
    assert columns.shape == (-(-dims // 64), 70)
    assert columns.flags.c_contiguous
    for row in (0, 69):
        bits = [int(columns[dim // 64, row]) >> dim % 64 & 1 for dim in range(dims)]
        assert bits == (rows[row] > 0).tolist()


@pytest.mark.parametrize("numpy_2", [True, False])
@pytest.mark.parametrize(("count", "dims"), [(1, 64), (700, 100), (70_000, 128)])
def test_distances_are_the_bits_that_differ(
    count: int, dims: int, numpy_2: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not numpy_2 and hasattr(np, "bitwise_count"):
        monkeypatch.delattr(np, "bitwise_count")
    rows, query = vectors(count, dims), vectors(1, dims, seed=1)
    out = np.full(count, 7, np.uint16)
    kernels.bit_distances(kernels.sign_bits(rows), kernels.sign_bits(query)[:, 0], out)
    assert np.array_equal(out, ((rows > 0) != (query > 0)).sum(axis=1))


def test_products_of_int8_are_exact_where_they_are_largest() -> None:
    """Where pairs of products are added as int16, a query of larger numbers would overflow."""
    rows = np.full((40, 64), -127, np.int8)
    rows[::2] = 127
    queries = kernels.as_int8_query(np.stack([np.ones(64, np.float32), np.tile(np.float32([1, -1]), 32)]))
    assert np.abs(queries).max() == 64
    expected = rows.astype(np.int64) @ queries.astype(np.int64)
    assert np.array_equal(kernels.first_products(rows, queries), expected)


def test_products_of_mapped_rows_need_no_copy_of_them() -> None:
    rows, queries = store(vectors(1000, 64), "int8"), kernels.as_int8_query(vectors(3, 64, seed=1))
    rows.flags.writeable = False
    expected = rows.astype(np.int64) @ queries.astype(np.int64)
    assert np.array_equal(kernels.first_products(rows, queries), expected)


def test_the_graph_that_ships_is_one_product() -> None:
    rows = helper.make_tensor_value_info("rows", TensorProto.INT8, ["n", "d"])
    queries = helper.make_tensor_value_info("queries", TensorProto.INT8, ["d", "q"])
    products = helper.make_tensor_value_info("products", TensorProto.INT32, ["n", "q"])
    node = helper.make_node("MatMulInteger", ["rows", "queries"], ["products"])
    graph = helper.make_graph([node], "g", [rows, queries], [products])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    made.ir_version = 8
    assert onnx.load(INT8_PRODUCTS) == made


def test_cosines_are_those_of_unit_vectors() -> None:
    rows, (query,) = store(vectors(50, 40), "int8").astype(np.float32), vectors(1, 40, seed=1)
    expected = unit_length(rows) @ query
    np.testing.assert_allclose(kernels.cosines(rows, query, None), expected, atol=1e-6)
    np.testing.assert_allclose(kernels.cosines(rows, query, kernels.scales_of(rows)), expected, atol=1e-6)
    assert kernels.cosines(np.zeros((1, 40), np.float32), query, None).tolist() == [0]


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("count", [1, 10, 999, 5000])
def test_the_smallest_are_those_that_sorting_finds(count: int, kind: type) -> None:
    chance = np.random.default_rng(count)
    for size in (1, 7, 1000, 100_000):
        costs = chance.integers(0, 250, size).astype(kind)
        found = kernels.smallest(costs, count, limit=240)
        expected = np.sort(costs[costs < 240])[:count]
        assert np.array_equal(np.sort(costs[found]), expected)
        assert np.array_equal(found, np.unique(found))
        assert {*found} <= {*kernels.small(costs, count, limit=240)}


def test_nothing_below_the_limit_is_nothing() -> None:
    assert kernels.smallest(np.full(50, 65535, np.uint16), 5, limit=65535).tolist() == []
    assert kernels.smallest(np.zeros(0, np.float32), 5, limit=np.inf).tolist() == []


def test_the_smallest_are_found_where_a_sample_says_little() -> None:
    """All small costs lie where the sample does not look."""
    costs = np.full(200_000, 9.0, np.float32)
    costs[1:400] = np.linspace(0, 1, 399)
    step = len(costs) // 16384
    costs[::step] = 9.0
    assert np.array_equal(np.sort(costs[kernels.smallest(costs, 300, np.inf)]), np.sort(costs)[:300])
