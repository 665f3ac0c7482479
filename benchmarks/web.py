"""The built-in model in Chromium: bytes and time to the first vector, time of a query, equality with Python, search.

    python benchmarks/web.py --json benchmarks/results/web.json --search DATA/retrieval/hotpotqa-500
    python benchmarks/web.py --json benchmarks/results/web.json --parts visits   # the times alone, about five minutes
    python benchmarks/web.py --json benchmarks/results/web.json --parts sizes    # the bytes alone, for new weights

What --parts leaves out stays in the JSON as it was.

Every visit is to a browser that has never seen the site, over loopback. Depths and slow-downs take turns, round after
round, and of each number the smallest over rounds is kept, the one that other work disturbed least. Two slow-downs:
what Chromium's devtools offer, which slows the page itself and not its workers, where the model runs; and a quarter of
one core for the whole process, workers included, by a quota of the kernel's (Linux, as root). `loop_ms`, a loop in a
worker, says how much they slow.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
from hard_texts import every_character, hard_texts
from playwright.sync_api import Browser, Page, Response
from web_pages import installed_chromium, launched, served

import demitasse as dt
from demitasse.cli.indexes import web_index
from demitasse.cli.web import sample_index
from demitasse.exporting.web import export_web
from demitasse.host.bundled import BUILT_IN
from demitasse.search.queries import read_queries

DEPTHS = (0, 1, 3, 6)
SLOW = ("plain", "devtools 4x", "a quarter of a core")
PARTS = ("sizes", "visits", "equality", "search")
BYTES = ("model_bytes", "runtime_bytes")
ROUNDS, QUERIES = 5, 40
FIRST = """async (layers) => {
    const began = performance.now();
    const files = [];
    const { load } = await import('./runtime/demitasse.js');
    window.model = await load('./', { layers, onFile: (file) => files.push(file) });
    const loaded = performance.now();
    await model.encode(['how to make better espresso at home'], { layers });
    const ended = performance.now();
    const count = files.length;
    window.index = await model.openIndex();
    return { files: files.slice(0, count), load_ms: loaded - began, first_vector_ms: ended - began };
}"""
QUERY = """async ([layers, count]) => {
    const times = [];
    for (let number = 0; number < count; number++) {
        const began = performance.now();
        const query = `how to make better espresso at home, and what does it cost? ${number}`;
        await model.search(index, query, 10, { layers });
        times.push(performance.now() - began);
    }
    return times;
}"""
LOOP = """() => new Promise((resolve) => {
    const code = `const began = performance.now(); let sum = 0;
        for (let at = 0; at < 2e7; at++) sum += Math.sqrt(at);
        postMessage(performance.now() - began);`;
    const worker = new Worker(URL.createObjectURL(new Blob([code])));
    worker.onmessage = (event) => { worker.terminate(); resolve(event.data); };
})"""
ENCODE = "async ([texts, layers]) => (await model.encode(texts, { layers })).map((one) => Array.from(one))"
SEARCH = """async ([queries, layers, k]) => {
    const found = [];
    for (const query of queries) found.push((await model.search(index, query, k, { layers })).map((hit) => hit.id));
    return found;
}"""


@contextmanager
def quarter(browser: Browser) -> Iterator[None]:
    """The processes of pages may use a quarter of one core, all their threads together: a quota of the kernel's."""
    listed = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    pids = [str(one["id"]) for one in listed if one["type"] == "renderer"]
    first_version = Path("/sys/fs/cgroup/cpu")  # of control groups; the second has one folder for all
    root = first_version if first_version.is_dir() else Path("/sys/fs/cgroup")
    group = root / "demitasse-web"
    group.mkdir(exist_ok=True)
    if root == first_version:
        (group / "cpu.cfs_period_us").write_text("4000")
        (group / "cpu.cfs_quota_us").write_text("1000")
    else:
        (group / "cpu.max").write_text("1000 4000")
    for pid in pids:
        (group / "cgroup.procs").write_text(pid)
    try:
        yield
    finally:
        for pid in pids:
            (root / "cgroup.procs").write_text(pid)
        group.rmdir()


def visit(browser: Browser, address: str, layers: int, slow: str) -> dict[str, Any]:
    """What a first visit fetches and takes, and queries after it."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{address}app.webmanifest")  # same origin, and no script
    scripts: dict[str, int] = {}
    context.on("response", lambda answer: scripts.update(script(answer)))
    if slow == "devtools 4x":
        context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 4})
    with quarter(browser) if slow == "a quarter of a core" else nullcontext():
        first = page.evaluate(FIRST, layers)
        times = page.evaluate(QUERY, [layers, QUERIES])
        loop = page.evaluate(LOOP)  # how slow workers really are
    context.close()
    sizes = {file["path"]: file["bytes"] for file in first.pop("files")}
    model = sum(size for path, size in sizes.items() if path.startswith("model/"))
    runtime = sum(sizes.values()) - model + sum(scripts.values())  # with the manifest
    return {
        **first,
        "query_p50_ms": statistics.median(times),
        "query_mean_ms": statistics.fmean(times),
        "loop_ms": loop,
        "model_bytes": model,
        "runtime_bytes": runtime,
    }


def script(answer: Response) -> dict[str, int]:
    """The size of an answer that is JavaScript, by its address."""
    if not answer.url.partition("?")[0].endswith((".js", ".mjs")):
        return {}
    return {answer.url: int(answer.headers["content-length"])}


def sizes(browser: Browser, address: str) -> list[dict[str, Any]]:
    """The bytes that are fetched until the first vector of each depth."""
    found = [(depth, visit(browser, address, depth, "plain")) for depth in DEPTHS]
    return [{"layers": depth, **{name: facts[name] for name in BYTES}} for depth, facts in found]


def visits(browser: Browser, address: str) -> list[dict[str, Any]]:
    """The least time of all rounds, for every depth and slow-down."""
    found: dict[tuple[int, str], list[dict[str, Any]]] = {(depth, slow): [] for depth in DEPTHS for slow in SLOW}
    for _ in range(ROUNDS):
        for (depth, slow), runs in found.items():
            runs.append(visit(browser, address, depth, slow))
            print(depth, slow, {name: round(value, 1) for name, value in runs[-1].items()}, flush=True)
    return [
        {
            "layers": depth,
            "cpu": slow,
            **{name: min(run[name] for run in runs) for name in runs[0] if name not in BYTES},
        }
        for (depth, slow), runs in found.items()
    ]


def compared(found: np.ndarray, expected: np.ndarray) -> dict[str, float]:
    """How near two sets of vectors are."""
    cosines = (found * expected).sum(axis=1)
    return {
        "least_cosine": float(cosines.min()),
        "mean_cosine": float(cosines.mean()),
        "share_at_least_0.9999": float((cosines >= 0.9999).mean()),
    }


def native_again(texts: list[str], layers: int, *, fused: bool) -> np.ndarray:
    """The same blocks on the native onnxruntime, changed by what should not matter.

    Either with its fusions, which add in another order, or with each number of the words' states moved up or down by
    the last of its bits, once, before the first layer.
    """
    encoder, chance = dt.load(), np.random.default_rng(0)
    options = ort.SessionOptions()
    if not fused:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    names = ["embeddings", *(f"layer_{layer}" for layer in range(1, layers + 1)), f"exit_{layers}"]
    sessions = [ort.InferenceSession((BUILT_IN / f"{name}.onnx").read_bytes(), options) for name in names]
    rows = []
    for text in texts:
        ids = np.array([encoder.reader.read([text]).ids_of(0)], np.int64)
        values = {"input_ids": ids, "attention_mask": np.ones_like(ids), "pooled_mask": np.ones_like(ids)}
        for session in sessions:
            given = {value.name: values[value.name] for value in session.get_inputs()}
            values |= dict(zip((one.name for one in session.get_outputs()), session.run(None, given), strict=True))
            values["hidden"] = values.pop("next_hidden", values["hidden"])
            if session is sessions[0] and not fused:
                up = chance.random(values["hidden"].shape) < 0.5
                values["hidden"] = np.nextafter(values["hidden"], np.where(up, np.inf, -np.inf), dtype=np.float32)
        rows.append(values["embedding"][0] / np.linalg.norm(values["embedding"][0]))
    return np.float32(rows)


def equality(page: Page) -> dict[str, Any]:
    """Tokens and vectors of 2,000 texts against Python's."""
    texts, encoder = hard_texts(), dt.load()
    characters = list(every_character())
    packed = encoder.reader.read([*texts, *characters])
    tokens = page.evaluate("(texts) => model.tokens(texts)", [*texts, *characters])
    differ = sum(packed.ids_of(index) != ids for index, ids in enumerate(tokens))
    rows = []
    for depth in DEPTHS:
        expected = encoder.cut(depth, encoder.dims).encode(texts, progress=False)
        browser = np.float32(page.evaluate(ENCODE, [texts, depth]))
        rows.append({"layers": depth, "browser": compared(browser, expected)})
        for name, fused in (("native, fused", True), ("native, last bits", False)):
            rows[-1][name] = compared(native_again(texts, depth, fused=fused), expected)
        print(rows[-1], flush=True)
    return {"texts": len(texts), "character_texts": len(characters), "texts_with_other_tokens": differ, "vectors": rows}


def search(browser: Browser, source: Path, folder: Path) -> list[dict[str, Any]]:
    """nDCG@10 of queries at several depths against an index made at full depth, in the browser and in Python."""
    from demitasse.search.document_files import read_documents

    documents = list(read_documents(source, None, None))
    index = dt.Index.build(
        dt.load(), [one.text for one in documents], folder / "docs", ids=[one.id or "" for one in documents]
    )
    export_web(dt.load(), folder / "web", index=web_index(folder / "docs"))
    asked = read_queries(source)
    rows = []
    with served(folder / "web") as address:
        page = browser.new_page()
        page.goto(f"{address}demitasse.json")
        page.evaluate(FIRST, 6)
        for depth in (1, 3, 6):
            began = time.perf_counter()
            found = page.evaluate(SEARCH, [list(asked.texts), depth, asked.least])
            seconds = time.perf_counter() - began
            python = [[hit.id for hit in hits] for hits in index.search(list(asked.texts), asked.least, layers=depth)]
            same = [len({*one[:10]} & {*other[:10]}) / 10 for one, other in zip(found, python, strict=True)]
            rows.append(
                {
                    "layers": depth,
                    "browser": asked.scores(found),
                    "python": asked.scores(python),
                    "shared_of_10": float(np.mean(same)),
                    "ms_per_query": 1000 * seconds / len(found),
                    "texts": len(index),
                    "queries": len(found),
                }
            )
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--search", type=Path, help="folder in BEIR layout")
    asked = parser.parse_args()
    if "search" in asked.parts and asked.search is None:
        parser.error("--search is missing; give a folder in BEIR layout, or leave search out of --parts")
    chromium = installed_chromium()
    if chromium is None:
        sys.exit("no Chromium is installed; run tests/browser.sh")
    with tempfile.TemporaryDirectory() as folder, launched(chromium) as browser:
        site = Path(folder) / "site"
        export_web(dt.load(), site, index=sample_index(dt.load()), page=True)
        result: dict[str, Any] = json.loads(asked.json.read_text()) if asked.json.exists() else {}
        # Parts may come from different runs, so each of them has its browser.
        browsers = dict.fromkeys(asked.parts, f"Chromium {browser.version}")
        result |= {"cores": os.cpu_count(), "browsers": {**result.get("browsers", {}), **browsers}}
        with served(site) as address:
            if "sizes" in asked.parts:
                result["sizes"] = sizes(browser, address)
            if "visits" in asked.parts:
                result["visits"] = visits(browser, address)
            if "equality" in asked.parts:
                page = browser.new_page()
                page.goto(f"{address}app.webmanifest")
                page.evaluate(FIRST, 6)
                result["equality"] = equality(page)
        if "search" in asked.parts:
            result["search"] = {"task": asked.search.name, "rows": search(browser, asked.search, Path(folder))}
    asked.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
