"""Why int8 vectors of a browser are not always Python's: which operator differs first, and what that leads to.

    python benchmarks/web_differences.py --json benchmarks/results/web-differences.json

Chromium and the native onnxruntime run the same blocks of the built-in model, without fusions, on one thread, one text
at a time. Three questions: which operators differ when they are given the same numbers; which int8 numbers are rounded
otherwise when all before them were rounded alike (the native run is given the browser's, and its own are compared with
them); and how near the vectors are, with and without the browser's numbers put in. Needs web/node_modules.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
from hard_texts import hard_texts
from playwright.sync_api import Page
from web_pages import installed_chromium, launched, served

import demitasse as dt
from demitasse.encoding.ort_sessions import Values, open_session, run
from demitasse.encoding.vectors import unit_length
from demitasse.host.bundled import BUILT_IN
from web import compared  # beside this file

Array = npt.NDArray[np.float32]

RUNTIME = Path(__file__).parents[1] / "web" / "node_modules" / "onnxruntime-web" / "dist"
RUNTIME_FILES = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
DEPTHS = (1, 3, 6)
LAYERS = [f"layer_{layer}" for layer in range(1, 7)]
EXITS = {depth: f"exit_{depth}" for depth in DEPTHS}
WAYS = ("browser", "native", "put in")
COMPUTED = ("LayerNormalization", "Attention", "Gelu", "QuantizeLinear", "MatMulIntegerToFloat", "Mul", "Add")
OPERATOR_TEXTS = 50  # of the 2,000, on which single operators are compared
OPEN = """async () => {
    const ort = await import('./ort.wasm.min.mjs');
    ort.env.wasm.numThreads = 1;
    ort.env.logLevel = 'error';
    const kinds = { float32: Float32Array, int64: BigInt64Array, uint8: Uint8Array, bool: Uint8Array };
    const bytes = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
    const sessions = new Map();
    window.open_graph = async (name, graph) => {
        const options = { graphOptimizationLevel: 'disabled', executionProviders: ['wasm'] };
        sessions.set(name, await ort.InferenceSession.create(bytes(graph), options));
    };
    window.run_graph = async (name, given) => {
        const feeds = {};
        for (const [input, [kind, shape, data]] of Object.entries(given)) {
            feeds[input] = new ort.Tensor(kind, new kinds[kind](bytes(data).buffer), shape);
        }
        const found = await sessions.get(name).run(feeds);
        return Object.fromEntries(Object.entries(found).map(([output, { type, dims, data }]) => {
            const raw = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
            let text = '';
            for (let at = 0; at < raw.length; at += 8192) text += String.fromCharCode(...raw.subarray(at, at + 8192));
            return [output, [type, dims, btoa(text)]];
        }));
    };
}"""


class InBrowser:
    """Graphs that run in a page, on the runtime that is sent to browsers."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.evaluate(OPEN)
        self.inputs: dict[str, list[str]] = {}

    def open(self, name: str, graph: onnx.ModelProto) -> None:
        text = base64.b64encode(graph.SerializeToString()).decode()
        self.page.evaluate("([name, graph]) => open_graph(name, graph)", [name, text])
        self.inputs[name] = [value.name for value in graph.graph.input]

    def run(self, name: str, values: Values) -> Values:
        given = {input: packed(values[input]) for input in self.inputs[name]}
        found = self.page.evaluate("([name, given]) => run_graph(name, given)", [name, given])
        return {output: unpacked(*value) for output, value in found.items()}


def packed(values: npt.NDArray[Any]) -> list[Any]:
    return [values.dtype.name, list(values.shape), base64.b64encode(values.tobytes()).decode()]


def unpacked(kind: str, shape: list[int], text: str) -> npt.NDArray[Any]:
    return np.frombuffer(base64.b64decode(text), np.dtype(kind)).reshape(shape)


def block(name: str) -> onnx.ModelProto:
    return onnx.load(BUILT_IN / f"{name}.onnx")


def roundings(graph: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [node for node in graph.graph.node if node.op_type == "QuantizeLinear"]


def showing(graph: onnx.ModelProto, kinds: Sequence[str]) -> onnx.ModelProto:
    """`graph`, which also gives what its operators of these kinds compute."""
    known = {value.name for value in graph.graph.output}
    for node in graph.graph.node:
        if node.op_type in kinds and node.output[0] not in known:
            graph.graph.output.append(helper.make_empty_tensor_value_info(node.output[0]))
    return graph


def told_roundings(graph: onnx.ModelProto) -> onnx.ModelProto:
    """`graph`, which takes its int8 numbers instead of those it rounds itself, and gives its own as `….own`."""
    for node in roundings(graph):
        shape = ["texts", "tokens", "channels"]
        graph.graph.input.append(helper.make_tensor_value_info(node.output[0], TensorProto.UINT8, shape))
        node.output[0] += ".own"
        for name in (node.output[0], node.input[0]):
            graph.graph.output.append(helper.make_empty_tensor_value_info(name))
    return graph


def alone(graph: onnx.ModelProto, node: onnx.NodeProto, values: Values) -> onnx.ModelProto:
    """One operator of `graph`, whose inputs have the types of `values`."""
    weights = {tensor.name: tensor for tensor in graph.graph.initializer}
    names = [name for name in dict.fromkeys(node.input) if name]
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(values[name].dtype), [None] * values[name].ndim
        )
        for name in names
        if name not in weights
    ]
    output = helper.make_empty_tensor_value_info(node.output[0])
    only = helper.make_graph([node], "alone", inputs, [output], [weights[name] for name in names if name in weights])
    return helper.make_model(only, opset_imports=graph.opset_import, ir_version=graph.ir_version)


def first_values(texts: Sequence[str]) -> Iterator[Values]:
    """What the first block takes, one text at a time."""
    reader = dt.load().reader
    for text in texts:
        ids = np.array([reader.read([text]).ids_of(0)], np.int64)
        yield {"input_ids": ids, "attention_mask": np.ones_like(ids), "pooled_mask": np.ones_like(ids)}


def operators(browser: InBrowser, texts: Sequence[str]) -> list[dict[str, Any]]:
    """How far each kind of operator is from the native one, given the same numbers."""
    blocks = {name: block(name) for name in ["embeddings", *LAYERS]}
    native = {
        name: open_session(showing(block(name), [*COMPUTED, "Cast", "Gather"]).SerializeToString()) for name in blocks
    }
    opened: set[str] = set()
    found: dict[str, list[tuple[int, int, float]]] = {kind: [] for kind in COMPUTED}
    for values in first_values(texts):
        for name, graph in blocks.items():
            values |= run(native[name], values)
            for node in graph.graph.node:
                if node.op_type not in COMPUTED:
                    continue
                output, key = node.output[0], f"{name} {node.output[0]}"
                if key not in opened:
                    browser.open(key, alone(graph, node, values))
                    opened.add(key)
                here, there = values[output], browser.run(key, values)[output]
                step = np.spacing(np.abs(here).max()) if here.dtype == np.float32 else 1
                most = np.abs(here.astype(np.float64) - there).max() / step
                found[node.op_type].append((int((here != there).sum()), here.size, float(most)))
            values["hidden"] = values.get("next_hidden", values["hidden"])
    rows = []
    for kind, facts in found.items():
        different, numbers = (sum(fact[at] for fact in facts) for at in (0, 1))
        # The largest difference is told in steps of a float of the size of the largest number.
        most = max(fact[2] for fact in facts)
        rows.append({"operator": kind, "numbers": numbers, "different": different, "most_steps": most})
        print(rows[-1], flush=True)
    return rows


@dataclass(frozen=True)
class Rounding:
    """What became of one rounding to int8 of one text."""

    layer: int
    after: str  # the operator that computed what is rounded
    numbers: int
    otherwise: int  # rounded otherwise than in the browser, with all numbers before put in
    steps: int  # by how many steps of int8 at most
    from_a_half: float  # how far, in steps, those numbers were from the middle between two steps at most
    carried: int  # otherwise than in the browser if nothing is put in


class Runs:
    """The same texts in the browser, natively, and natively with the browser's int8 numbers put in."""

    def __init__(self, browser: InBrowser) -> None:
        self.browser = browser
        self.blocks = {name: block(name) for name in LAYERS}
        graphs = {name: showing(block(name), ["QuantizeLinear"]) for name in ["embeddings", *LAYERS, *EXITS.values()]}
        for name, graph in graphs.items():
            browser.open(name, graph)
        self.native = {name: open_session(graph.SerializeToString()) for name, graph in graphs.items()}
        self.put_in = {name: open_session(told_roundings(block(name)).SerializeToString()) for name in LAYERS}

    def of(self, values: Values) -> tuple[list[Rounding], dict[tuple[str, int], Array]]:
        """Every rounding of one text, and its vectors by way and depth."""
        there = {**values, **self.browser.run("embeddings", values)}
        here = {**values, **run(self.native["embeddings"], values)}
        mixed = dict(here)
        found, vectors = [], {}
        for layer, (name, graph) in enumerate(self.blocks.items(), 1):
            there |= self.browser.run(name, there)
            here |= run(self.native[name], here)
            given = {node.output[0]: there[node.output[0]] for node in roundings(graph)}
            mixed |= run(self.put_in[name], {**mixed, **given})
            found += [rounding(graph, node, layer, (there, here, mixed)) for node in roundings(graph)]
            for one in (there, here, mixed):
                one["hidden"] = one["next_hidden"]
            if layer in DEPTHS:
                ends = {
                    "browser": self.browser.run(EXITS[layer], there),
                    "native": run(self.native[EXITS[layer]], here),
                    "put in": run(self.native[EXITS[layer]], mixed),
                }
                vectors |= {(way, layer): unit_length(end["embedding"])[0] for way, end in ends.items()}
        return found, vectors


def rounding(graph: onnx.ModelProto, node: onnx.NodeProto, layer: int, ways: tuple[Values, Values, Values]) -> Rounding:
    there, here, mixed = ways
    output = node.output[0]
    apart = np.abs(mixed[f"{output}.own"].astype(int) - there[output])
    weights = {tensor.name: tensor for tensor in graph.graph.initializer}
    exact = mixed[node.input[0]][apart > 0] / numpy_helper.to_array(weights[node.input[1]]).astype(np.float64)
    from_a_half = np.abs(np.abs(exact - np.round(exact)) - 0.5)
    return Rounding(
        layer,
        maker(graph, node),
        apart.size,
        int(np.count_nonzero(apart)),
        int(apart.max()),
        float(from_a_half.max(initial=0)),
        int(np.count_nonzero(here[output] != there[output])),
    )


def maker(graph: onnx.ModelProto, node: onnx.NodeProto) -> str:
    """The operator that computed what `node` rounds, past the multiplication that evens channels."""
    makers = {made.output[0]: made for made in graph.graph.node}
    name = node.input[0]
    while name in makers and makers[name].op_type == "Mul":
        name = makers[name].input[0]
    return makers[name].op_type if name in makers else "LayerNormalization"  # of the block before


def rounded(browser: InBrowser, texts: Sequence[str]) -> dict[str, Any]:
    """Which numbers are rounded otherwise, after which operator, and what that does to vectors."""
    runs = Runs(browser)
    found: list[list[Rounding]] = []
    vectors: dict[tuple[str, int], list[Array]] = {}
    for values in first_values(texts):
        ones, own = runs.of(values)
        found.append(ones)
        for key, vector in own.items():
            vectors.setdefault(key, []).append(vector)
        if len(found) % 100 == 0:
            print(len(found), "texts", flush=True)
    everything = [one for ones in found for one in ones]
    after = []
    for kind in dict.fromkeys(one.after for one in everything):
        own = [one for one in everything if one.after == kind]
        after.append(
            {
                "operator": kind,
                "numbers": sum(one.numbers for one in own),
                "otherwise": sum(one.otherwise for one in own),
                "most_steps": max(one.steps for one in own),
                "most_from_a_half": max(one.from_a_half for one in own),
            }
        )
        print(after[-1], flush=True)
    rows = [depth_row(texts, depth, found, {way: np.stack(vectors[way, depth]) for way in WAYS}) for depth in DEPTHS]
    return {"rounded_after": after, "depths": rows}


def depth_row(
    texts: Sequence[str], depth: int, found: Sequence[Sequence[Rounding]], vectors: dict[str, Array]
) -> dict[str, Any]:
    otherwise = np.array([sum(one.otherwise for one in ones if one.layer <= depth) for ones in found])
    last = np.array([[(one.carried, one.numbers) for one in ones if one.layer == depth] for ones in found]).sum(axis=1)
    with_some = otherwise > 0
    encoder = dt.load()
    batched = encoder.cut(depth, encoder.dims).encode(list(texts), progress=False)
    row = {
        "layers": depth,
        "otherwise": int(otherwise.sum()),
        "texts_with_some": int(with_some.sum()),
        "carried_share_of_those_texts": float(last[with_some, 0].sum() / max(1, last[with_some, 1].sum())),
        "native": compared(vectors["native"], vectors["browser"]),
        "native_of_texts_without": compared(vectors["native"][~with_some], vectors["browser"][~with_some]),
        "put in": compared(vectors["put in"], vectors["browser"]),
        "python_in_batches": compared(batched, vectors["native"]),
    }
    print(row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--every", type=int, default=1, help="only every so-manieth of the 2,000 texts")
    asked = parser.parse_args()
    chromium = installed_chromium()
    if chromium is None or not RUNTIME.is_dir():
        sys.exit("Chromium and web/node_modules are needed; run tests/browser.sh and tests/node.sh")
    texts = hard_texts()[:: asked.every]
    with tempfile.TemporaryDirectory() as folder, launched(chromium) as browser:
        for name in RUNTIME_FILES:
            shutil.copy(RUNTIME / name, folder)
        with served(Path(folder)) as address:
            page = browser.new_page()
            page.goto(f"{address}{RUNTIME_FILES[0]}")  # same origin, and nothing runs
            there = InBrowser(page)
            result = {
                "browser": f"Chromium {browser.version}",
                "onnxruntime": {
                    "native": ort.__version__,
                    "web": json.loads((RUNTIME.parent / "package.json").read_text())["version"],
                },
                "texts": len(texts),
                "operators": operators(there, texts[:: -(-len(texts) // OPERATOR_TEXTS)]),
                **rounded(there, texts),
            }
    asked.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
