"""transformers.js with all-MiniLM-L6-v2 in int8 beside the built-in model, in the same browser, by turns.

    npm install --ignore-scripts --prefix PEER @huggingface/transformers@4.3.1
    python benchmarks/web_peer.py MODEL PEER/node_modules --json benchmarks/results/web-peer.json

MODEL is a folder of all-MiniLM-L6-v2. It is exported and quantized as the models of transformers.js are: one graph,
dynamic int8. Every visit is to a browser that has never seen the page. Of each number the smallest over rounds is kept.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import statistics
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers as tf
from onnxruntime.quantization import QuantType, quantize_dynamic
from playwright.sync_api import Browser

import demitasse as dt
from demitasse.cli.web import sample_index
from demitasse.exporting.web import export_web
from web import FIRST, installed_chromium, launched, served  # beside this file

ROUNDS, QUERIES = 5, 40
PEER = """async () => {
    const began = performance.now();
    const { AutoModel, PreTrainedTokenizer, env, mean_pooling } = await import('./peer/transformers.min.js');
    env.allowRemoteModels = false;
    env.allowLocalModels = true;
    env.localModelPath = new URL('./models/', location.href).href;
    env.backends.onnx.wasm.wasmPaths = new URL('./peer/', location.href).href;
    const file = async (name) => (await fetch(`${env.localModelPath}minilm/${name}`)).json();
    const tokenizer = new PreTrainedTokenizer(await file('tokenizer.json'), await file('tokenizer_config.json'));
    const peer = await AutoModel.from_pretrained('minilm', { dtype: 'q8', device: 'wasm' });
    window.extract = async (texts) => {
        const inputs = tokenizer(texts, { padding: true, truncation: true });
        const { last_hidden_state } = await peer(inputs);
        return mean_pooling(last_hidden_state, inputs.attention_mask).normalize(2, -1);
    };
    await extract(['how to make better espresso at home']);
    return { first_vector_ms: performance.now() - began };
}"""
TIMES = """async (count) => {
    const times = [];
    for (let number = 0; number < count; number++) {
        const text = `how to make better espresso at home, and what does it cost? ${number}`;
        const began = performance.now();
        if (window.layers === undefined) await extract([text]);
        else await model.encode([text], { layers });
        times.push(performance.now() - began);
    }
    return times;
}"""


class States(torch.nn.Module):
    """The last states of a model, from the inputs that its tokenizer gives."""

    def __init__(self, model: tf.PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor) -> Any:
        return self.model(
            input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids
        ).last_hidden_state


def write_peer(model: Path, packages: Path, site: Path) -> None:
    """The model as transformers.js loads it, and the library with its runtime."""
    target = site / "models" / "minilm"
    (target / "onnx").mkdir(parents=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(model / name, target / name)
    states = States(tf.AutoModel.from_pretrained(model, attn_implementation="eager").eval())
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    axes = {name: {0: "texts", 1: "tokens"} for name in [*inputs, "last_hidden_state"]}
    whole = site / "whole.onnx"
    torch.onnx.export(
        states,
        tuple(torch.ones(2, 5, dtype=torch.long) for _ in inputs),
        str(whole),
        input_names=inputs,
        output_names=["last_hidden_state"],
        dynamic_axes=axes,
        dynamo=False,
    )
    quantize_dynamic(whole, target / "onnx" / "model_quantized.onnx", weight_type=QuantType.QUInt8)
    whole.unlink()
    (site / "peer").mkdir()
    shutil.copy(packages / "@huggingface/transformers/dist/transformers.min.js", site / "peer")
    for file in (packages / "onnxruntime-web/dist").glob("ort-wasm-simd-threaded*"):
        shutil.copy(file, site / "peer")


def visit(browser: Browser, address: str, site: Path, layers: int | None) -> dict[str, float]:
    """What a first visit fetches and takes; without layers, that of transformers.js."""
    context = browser.new_context()
    page = context.new_page()
    sent: dict[str, int] = {}
    context.on("response", lambda answer: sent.update({answer.url: int(answer.headers.get("content-length", 0))}))
    page.goto(f"{address}app.webmanifest")
    sent.clear()
    if layers is None:
        first = page.evaluate(PEER)
    else:
        page.evaluate("(layers) => { window.layers = layers; }", layers)
        first = page.evaluate(FIRST, layers)
    times = page.evaluate(TIMES, QUERIES)
    context.close()
    facts = {"first_vector_ms": first["first_vector_ms"], "encode_p50_ms": statistics.median(times)}
    kinds = {"model": ("model/", "models/"), "runtime": ("peer/", "runtime/")}
    for kind, folders in kinds.items():
        names = [url.removeprefix(address).partition("?")[0] for url in sent]
        own = [name for name in names if name.startswith(folders)]
        facts[f"{kind}_bytes"] = sum(sent[url] for url, name in zip(sent, names, strict=True) if name in own)
        facts[f"{kind}_gzip_bytes"] = sum(packed(site / name) for name in own)
    return facts


@cache
def packed(path: Path) -> int:
    """What a host that compresses would send."""
    return len(path.read_bytes() if path.suffix == ".packed" else gzip.compress(path.read_bytes(), 9))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("packages", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    asked = parser.parse_args()
    chromium = installed_chromium()
    assert chromium is not None, "no Chromium is installed; run tests/browser.sh"
    with tempfile.TemporaryDirectory() as folder, launched(chromium) as browser:
        site = Path(folder) / "site"
        export_web(dt.load(), site, index=sample_index(dt.load()), page=True)
        write_peer(asked.model, asked.packages, site)
        runs: dict[int | None, list[dict[str, float]]] = {depth: [] for depth in (None, 1, 3, 6)}
        with served(site) as address:
            for _ in range(ROUNDS):
                for depth, found in runs.items():
                    found.append(visit(browser, address, site, depth))
                    print(depth, found[-1], flush=True)
        rows = [
            {"layers": depth, **{name: min(run[name] for run in found) for name in found[0]}}
            for depth, found in runs.items()
        ]
        result = {
            "browser": f"Chromium {browser.version}",
            "peer": "transformers.js 4.3.1, all-MiniLM-L6-v2",
            "rows": rows,
        }
        asked.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
