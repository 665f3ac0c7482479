"""Static int8: an ONNX graph with its matrix products in 8 bits, calibrated beforehand on real texts.

Weights get a scale per output channel, activations one fixed scale per tensor: a text's vector cannot depend on the
texts beside it, as it does where scales are computed for every batch. Activations of transformers have a few channels
far larger than the rest, which would leave the others few of the 256 steps. So channels are first divided by s and the
weights multiplied by it (SmoothQuant), with the s that gives the smallest error on the sampled texts, and only where
that is worth the extra multiplication. Embedding tables get a scale per row.

What rounding adds to a product on average is taken off its bias. A channel that is large for every token would
otherwise move all texts in one direction, which is much where little else tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from demitasse.encoding.ort_sessions import run_model
from demitasse.exporting.attention_fusion import drop_unneeded, readers_of

Array = npt.NDArray[np.float32]

STRENGTHS = (0.5, 0.6, 0.7, 0.8, 0.9)  # how much of the activations' spread moves into the weights
WORTH = 0.8  # an extra multiplication must bring the error down to this fraction
SAMPLE_TOKENS = 512  # token states of each activation on which errors are compared
TABLE_ROWS = 256  # tables with fewer rows stay in fp32
_MICROSOFT = "com.microsoft"


def quantized(model: onnx.ModelProto, feeds: Iterable[Mapping[str, npt.NDArray[np.generic]]]) -> onnx.ModelProto:
    """`model` in int8, with the scales of its activations from running `feeds`, which must have no padding."""
    products = _products(model.graph)
    seen = _observed(model, sorted({product.x for product in products}), feeds)
    quantized = onnx.ModelProto()
    quantized.CopyFrom(model)
    graph = quantized.graph
    del graph.node[:]
    for x in dict.fromkeys(product.x for product in products):
        of_x = [product for product in products if product.x == x]
        _plan(seen[x], of_x)
        for product in of_x:
            product.bias = _corrected_bias(product, seen[x].sample)
    by_output = {product.y: product for product in products}
    absorbed = {name for product in products for name in product.absorbed}
    done: set[str] = set()
    for node in model.graph.node:
        if node.output[0] in by_output:
            product = by_output[node.output[0]]
            if product.x not in done:
                graph.node.extend(_quantize_nodes(graph, product))
                done.add(product.x)
            graph.node.append(_product_node(graph, product))
        elif node.output[0] not in absorbed:
            graph.node.extend(_table_nodes(graph, node) or [node])
    drop_unneeded(graph)
    if not any(opset.domain == _MICROSOFT for opset in quantized.opset_import):
        quantized.opset_import.append(helper.make_opsetid(_MICROSOFT, 1))
    return quantized


@dataclass
class _Plan:
    """How an activation is quantized."""

    divide_by: Array | None
    scale: np.float32
    zero: np.uint8


@dataclass
class _Product:
    """x W + b in a graph."""

    x: str
    y: str
    weight: Array  # (in, out)
    bias: Array | None
    absorbed: list[str] = field(default_factory=list)  # outputs of the nodes it replaces, except the last
    plan: _Plan | None = None


@dataclass
class _Seen:
    """The range of an activation over all the texts, and a sample of it."""

    low: Array  # per channel
    high: Array
    sample: Array  # (token states, channels)


def _products(graph: onnx.GraphProto) -> list[_Product]:
    """Every product with a weight matrix, with the bias that is added to it if nothing else reads the product."""
    weights = {tensor.name: tensor for tensor in graph.initializer}
    outputs = {value.name for value in graph.output}
    readers = readers_of(graph)
    products = []
    for node in graph.node:
        if node.op_type == "MatMul" and _is_matrix(weights.get(node.input[1])):
            product = _Product(node.input[0], node.output[0], numpy_helper.to_array(weights[node.input[1]]), None)
            after = readers.get(node.output[0], [])
            if len(after) == 1 and after[0].op_type == "Add" and node.output[0] not in outputs:
                bias = weights.get(next(name for name in after[0].input if name != node.output[0]))
                if bias is not None and list(bias.dims) == [product.weight.shape[1]]:
                    product.bias = numpy_helper.to_array(bias)
                    product.absorbed, product.y = [product.y], after[0].output[0]
            products.append(product)
        elif node.op_type == "Gemm" and _plain_gemm(node) and _is_matrix(weights.get(node.input[1])):
            weight = numpy_helper.to_array(weights[node.input[1]])
            transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
            bias = weights.get(node.input[2]) if len(node.input) > 2 else None
            if len(node.input) < 3 or bias is not None:
                values = None if bias is None else numpy_helper.to_array(bias).reshape(-1)
                products.append(_Product(node.input[0], node.output[0], weight.T if transposed else weight, values))
    return products


def _is_matrix(tensor: onnx.TensorProto | None) -> bool:
    return tensor is not None and len(tensor.dims) == 2 and tensor.data_type == onnx.TensorProto.FLOAT


def _plain_gemm(node: onnx.NodeProto) -> bool:
    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    return values.get("alpha", 1.0) == 1.0 and values.get("beta", 1.0) == 1.0 and not values.get("transA", 0)


def _observed(
    model: onnx.ModelProto, names: list[str], feeds: Iterable[Mapping[str, npt.NDArray[np.generic]]]
) -> dict[str, _Seen]:
    if not names:  # usually an embeddings block: nothing but tables
        return {}
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    given = {value.name for value in [*model.graph.input, *model.graph.output]}
    watched.graph.output.extend(
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names if name not in given
    )
    samples: dict[str, list[Array]] = {name: [] for name in names}
    lows: dict[str, Array] = {}
    highs: dict[str, Array] = {}
    for values in run_model(watched, feeds):
        for name in names:
            tokens = values[name].reshape(-1, values[name].shape[-1])
            lows[name] = np.minimum(lows.get(name, tokens.min(0)), tokens.min(0))
            highs[name] = np.maximum(highs.get(name, tokens.max(0)), tokens.max(0))
            samples[name].append(tokens[:: max(1, len(tokens) // 16)][:16].copy())
    sampled = {
        name: np.concatenate(parts)[:: max(1, 16 * len(parts) // SAMPLE_TOKENS)] for name, parts in samples.items()
    }
    return {name: _Seen(lows[name], highs[name], sampled[name]) for name in names}


def _plan(seen: _Seen, products: list[_Product]) -> None:
    """Choose how the activation of `products` is quantized: the way with the smallest error in their outputs."""
    weight = np.concatenate([product.weight for product in products], axis=1)
    exact = seen.sample @ weight
    plain = _ranged(seen, None)
    best, least = plain, WORTH * _error(seen, plain, weight, exact)
    spread = np.maximum(np.maximum(-seen.low, seen.high), 1e-5)
    reach = np.maximum(np.abs(weight).max(1), 1e-5)
    for strength in STRENGTHS:
        divisor = spread**strength / reach ** (1 - strength)
        plan = _ranged(seen, (divisor / divisor.mean()).astype(np.float32))
        error = _error(seen, plan, weight, exact)
        if error < least:
            best, least = plan, error
    for product in products:
        product.plan = best


def _ranged(seen: _Seen, divide_by: Array | None) -> _Plan:
    low, high = (seen.low, seen.high) if divide_by is None else (seen.low / divide_by, seen.high / divide_by)
    least, most = min(0.0, float(low.min())), max(0.0, float(high.max()))
    scale = np.float32(max(most - least, 1e-8) / 255)
    return _Plan(divide_by, scale, np.uint8(np.clip(round(-least / float(scale)), 0, 255)))


def _error(seen: _Seen, plan: _Plan, weight: Array, exact: Array) -> float:
    return float(np.square(_rounded_product(seen.sample, plan, weight) - exact).mean())


def _rounded_product(states: Array, plan: _Plan, weight: Array) -> Array:
    """What `states @ weight` is in int8."""
    evened = states if plan.divide_by is None else states / plan.divide_by
    steps = np.clip(np.round(evened / plan.scale) + plan.zero, 0, 255) - np.float32(plan.zero)
    values, scales = _weight_in_int8(weight, plan)
    product: Array = (steps * plan.scale) @ (values * scales)
    return product


def _corrected_bias(product: _Product, states: Array) -> Array:
    """The bias with which the mean product of `states` is the same in int8."""
    assert product.plan is not None
    missing = (states @ product.weight - _rounded_product(states, product.plan, product.weight)).mean(0)
    corrected: Array = (missing if product.bias is None else product.bias + missing).astype(np.float32)
    return corrected


def _weight_in_int8(weight: Array, plan: _Plan) -> tuple[npt.NDArray[np.int8], Array]:
    moved = weight if plan.divide_by is None else weight * plan.divide_by[:, None]
    scales = np.maximum(np.abs(moved).max(0) / 127, 1e-12).astype(np.float32)
    return np.clip(np.round(moved / scales), -127, 127).astype(np.int8), scales


def _quantize_nodes(graph: onnx.GraphProto, product: _Product) -> list[onnx.NodeProto]:
    x, plan = product.x, product.plan
    assert plan is not None
    graph.initializer.append(numpy_helper.from_array(np.array(plan.scale), f"{x}.scale"))
    graph.initializer.append(numpy_helper.from_array(np.array(plan.zero), f"{x}.zero"))
    quantize = helper.make_node("QuantizeLinear", [x, f"{x}.scale", f"{x}.zero"], [f"{x}.int8"])
    if plan.divide_by is None:
        return [quantize]
    graph.initializer.append(numpy_helper.from_array((1 / plan.divide_by).astype(np.float32), f"{x}.factors"))
    quantize.input[0] = f"{x}.evened"
    return [helper.make_node("Mul", [x, f"{x}.factors"], [f"{x}.evened"]), quantize]


def _product_node(graph: onnx.GraphProto, product: _Product) -> onnx.NodeProto:
    assert product.plan is not None
    values, scales = _weight_in_int8(product.weight, product.plan)
    name = f"{product.y}.weight"
    graph.initializer.append(numpy_helper.from_array(values, name))
    graph.initializer.append(numpy_helper.from_array(scales, f"{name}.scales"))
    inputs = [f"{product.x}.int8", name, f"{product.x}.scale", f"{name}.scales", f"{product.x}.zero"]
    if product.bias is not None:
        graph.initializer.append(numpy_helper.from_array(product.bias, f"{name}.bias"))
        inputs += ["", f"{name}.bias"]
    return helper.make_node("MatMulIntegerToFloat", inputs, [product.y], domain=_MICROSOFT)


def _table_nodes(graph: onnx.GraphProto, node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """A lookup in a large table of floats as one in 8 bits; `None` if `node` is not one."""
    if node.op_type != "Gather" or any(attribute.name == "axis" and attribute.i for attribute in node.attribute):
        return None
    tensor = next((tensor for tensor in graph.initializer if tensor.name == node.input[0]), None)
    if tensor is None or not _is_matrix(tensor) or tensor.dims[0] < TABLE_ROWS:
        return None
    table, name = numpy_helper.to_array(tensor), f"{node.output[0]}.table"
    scales = np.maximum(np.abs(table).max(1, keepdims=True) / 127, 1e-12).astype(np.float32)
    graph.initializer.append(numpy_helper.from_array(np.round(table / scales).astype(np.int8), name))
    graph.initializer.append(numpy_helper.from_array(scales, f"{name}.scales"))
    return [
        helper.make_node("Gather", [name, node.input[1]], [f"{name}.rows"]),
        helper.make_node("Cast", [f"{name}.rows"], [f"{name}.floats"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Gather", [f"{name}.scales", node.input[1]], [f"{name}.row_scales"]),
        helper.make_node("Mul", [f"{name}.floats", f"{name}.row_scales"], [node.output[0]]),
    ]
