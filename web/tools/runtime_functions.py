"""Write `runtime_functions.json`: the functions of onnxruntime's WebAssembly that the small runtime keeps.

onnxruntime-web has every operator of ONNX, and the blocks of a BERT need few of them. A runtime that marks each
function it enters runs blocks in Chromium: the built-in model, and random models in fp32 and int8, with texts of many
lengths, one at a time and in batches, with one thread and several. What was marked is kept, and so is all that it calls
by name, even if it was not called now. The rest is called through tables alone (operators, their types, loaders of
other formats), and nothing that ran asked for it; where a model does, the page loads the whole runtime instead.

    apt-get install wabt
    python web/tools/runtime_functions.py

Run it after an upgrade of onnxruntime-web, or when `export` writes blocks with other operators, then `npm run build`.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "helpers"))
from hard_texts import hard_texts
from playwright.sync_api import Browser
from web_models import random_bert
from web_pages import PATIENCE, installed_chromium, launched, served

import demitasse as dt
from demitasse.cli.web import sample_index
from demitasse.encoding.manifest import Manifest
from demitasse.exporting.web import RUNTIME, export_web

WEB = Path(__file__).parents[1]
RUNTIME_FILE = WEB / "node_modules" / "onnxruntime-web" / "dist" / "ort-wasm-simd-threaded.wasm"
OUT = WEB / "runtime_functions.json"
WATCH = """() => {
    const { Worker } = window;
    window.Worker = class extends Worker { constructor(...given) { super(...given); window.last = this; } };
}"""
USE = """async ([texts, threads]) => {
    const { load } = await import('./runtime/demitasse.js');
    const model = await load('./', { threads });
    for (let layers = 0; layers <= model.info.full.layers; layers++) {
        for (const text of texts.slice(0, 60)) await model.encode([text], { layers });
        await model.encode(texts, { layers, dims: 16 });
    }
    const index = await model.openIndex();
    await model.search(index, 'a search', 10);
    const { port1, port2 } = new MessageChannel();
    const marks = new Promise((resolve) => { port1.onmessage = ({ data }) => resolve(data); });
    last.postMessage('marks', [port2]);
    const found = (await marks).flatMap((mark, number) => mark ? [number] : []);
    const used = model.info.threads;
    model.close();
    return [found, used];
}"""


def main() -> None:
    chromium = installed_chromium()
    if chromium is None:
        sys.exit("no Chromium is installed; run tests/browser.sh")
    wasm = RUNTIME_FILE.read_bytes()
    ran: set[int] = set()
    with tempfile.TemporaryDirectory() as name, launched(chromium) as browser:
        folder = Path(name)
        subprocess.run(["node", "build.mjs", "--marking", "--out", folder / "marking"], cwd=WEB, check=True)
        for number, encoder in enumerate(models(folder)):
            ran |= functions_of(browser, encoder, folder / "marking", folder / f"site-{number}")
            print(f"{encoder.folder}: {len(ran):,} functions ran so far", flush=True)
    kept = with_all_called(ran)
    description = {"sha256": hashlib.sha256(wasm).hexdigest(), "ran": len(ran), "kept": as_ranges(sorted(kept))}
    OUT.write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
    print(f"{len(kept):,} are kept")


def models(folder: Path) -> Iterable[dt.Encoder]:
    """The built-in model, and random ones, narrow and as wide as it, in both precisions."""
    yield dt.load()
    for dims in (32, 384):
        model = dt.load(str(random_bert(folder, dims)), device="cpu")
        for form in ("blocks", "blocks-int8"):
            dt.export(model, folder / f"{form}-{dims}", format=form)
            yield dt.load(folder / f"{form}-{dims}")


def functions_of(browser: Browser, encoder: dt.Encoder, marking: Path, site: Path) -> set[int]:
    """The numbers of the functions that run when texts are encoded, with one thread and with several."""
    export_web(encoder, site, index=sample_index(encoder), page=True)
    for name in RUNTIME:
        (site / "runtime" / name).write_bytes((marking / "runtime" / name).read_bytes())
    manifest = Manifest.read(site)
    assert manifest is not None
    manifest.with_files().write()
    found: set[int] = set()
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    with served(site) as address:
        for visit in range(2):  # the second one may use threads
            page.goto(address)
            page.wait_for_selector("html[data-ready]")
            page.evaluate("async () => { await navigator.serviceWorker.ready; }")
            page.evaluate(WATCH)
            numbers, threads = page.evaluate(USE, [hard_texts()[::4], 4])
            assert (threads > 1) == (visit == 1), "the page should be isolated at its second visit"
            found |= {*numbers}
    context.close()
    return found


def with_all_called(ran: set[int]) -> set[int]:
    """These functions and all that they call by name, directly or through others."""
    listed = subprocess.run(
        ["wasm-objdump", "-x", "-j", "Import", RUNTIME_FILE], capture_output=True, text=True, check=True
    )
    imported = len(re.findall(r"^ - func\[", listed.stdout, re.MULTILINE))  # they are numbered first
    called = defaultdict(set)
    with subprocess.Popen(["wasm-objdump", "-d", RUNTIME_FILE], stdout=subprocess.PIPE, text=True) as dump:
        assert dump.stdout is not None
        caller = -1
        for line in dump.stdout:
            if head := re.match(r"[0-9a-f]+ func\[(\d+)\]", line):
                caller = int(head[1]) - imported
            elif call := re.search(r"\| *(?:return_)?call (\d+)", line):
                called[caller].add(int(call[1]) - imported)
    kept, left = set(ran), [*ran]
    while left:
        new = {one for one in called[left.pop()] if one >= 0} - kept
        kept |= new
        left += new
    return kept


def as_ranges(numbers: list[int]) -> str:
    """Numbers in order, as in "0-3 7 9-12"."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return " ".join(f"{first}-{last}" if last > first else str(first) for first, last in ranges)


if __name__ == "__main__":
    main()
