"""A web folder in a real browser: the tokens, vectors and results of Python, offline too, and readable on a phone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from browsers import launched
from hard_texts import every_character, hard_texts
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect
from playwright.sync_api import Error as PlaywrightError
from web_models import random_bert
from web_pages import FLAGS, PATIENCE, installed_chromium, served

import demitasse as dt
from demitasse.cli.web import sample_index
from demitasse.encoding.manifest import Manifest
from demitasse.exporting.web import export_web
from demitasse.host.bundled import corpus

LOAD = "async (layers) => { window.model = await (await import('./runtime/demitasse.js')).load('./', { layers }); }"
ENCODE = "async ([texts, options]) => (await model.encode(texts, options)).map((one) => Array.from(one))"
SEARCH = """async ([queries, options]) => {
    const index = await model.openIndex();
    return Promise.all(queries.map((query) => model.search(index, query, 10, options)));
}"""
TOGETHER = """async ([texts, query, layers]) => {
    const [vectors, hits] = await Promise.all([model.encode(texts, { layers }), model.search(index, query, 5)]);
    return [vectors.map((one) => Array.from(one)), hits];
}"""
DAMAGE = """async (path) => {
    const kept = await caches.open('demitasse-files');
    const known = (await kept.keys()).find((request) => request.url.includes(path));
    await kept.put(known, new Response('damaged'));
}"""
READY = "html[data-ready]"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as opened:
        yield opened


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site with the built-in model at full depth."""
    folder = tmp_path_factory.mktemp("web") / "site"
    encoder = dt.load()
    export_web(encoder, folder, index=sample_index(encoder), page=True)
    return folder


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that has never seen the site, on a phone."""
    made = browser.new_context(viewport={"width": 360, "height": 780})
    made.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    yield made
    made.close()


@pytest.fixture
def blank(context: BrowserContext) -> Callable[[str], Page]:
    """Opens an empty page of a site, for scripts that load the model themselves."""

    def open_blank(address: str) -> Page:
        page = context.new_page()
        page.goto(f"{address}app.webmanifest")
        return page

    return open_blank


def cosines(found: Any, expected: np.ndarray) -> np.ndarray:
    return (np.float32(found) * expected).sum(axis=1)


def test_token_ids_are_those_of_python(site: Path, blank: Callable[[str], Page]) -> None:
    texts = [*hard_texts(), *every_character()]
    packed = dt.load().reader.read(texts)
    with served(site) as address:
        page = blank(address)
        page.evaluate(LOAD, 0)
        found = page.evaluate("(texts) => model.tokens(texts)", texts)
    assert found == [packed.ids_of(index) for index in range(len(texts))]


@pytest.mark.parametrize(("layers", "every"), [(0, 1), (1, 1), (3, 10), (6, 10)])
def test_int8_vectors_are_those_of_python(layers: int, every: int, site: Path, blank: Callable[[str], Page]) -> None:
    # Another order of additions changes the last bit of a number, and now and then a number of a layer is rounded to
    # the next int8, which all layers after it carry on. Without layers nothing is rounded, and with them most texts
    # have no such number.
    least, mean = {0: (0.999999, 0.999999), 1: (0.999, 0.9999), 3: (0.997, 0.9998), 6: (0.99, 0.999)}[layers]
    texts = hard_texts()[::every]
    expected = dt.load().cut(layers, 384).encode(texts, progress=False)
    with served(site) as address:
        page = blank(address)
        page.evaluate(LOAD, layers)
        found = cosines(page.evaluate(ENCODE, [texts, {"layers": layers}]), expected)
    assert found.min() >= least
    assert found.mean() >= mean
    assert np.median(found) >= 0.99999


def test_fp32_vectors_are_those_of_python(tmp_path: Path, blank: Callable[[str], Page]) -> None:
    dt.export(dt.load(str(random_bert(tmp_path)), device="cpu"), tmp_path / "blocks", format="blocks")
    encoder = dt.load(tmp_path / "blocks")
    export_web(encoder, tmp_path / "web", page=True)
    texts = hard_texts()
    with served(tmp_path / "web") as address:
        page = blank(address)
        page.evaluate(LOAD, None)
        for layers, dims in ((0, encoder.dims), (1, 8), (encoder.full.layers, encoder.dims)):
            found = page.evaluate(ENCODE, [texts, {"layers": layers, "dims": dims}])
            expected = encoder.cut(layers, dims).encode(texts, progress=False)
            assert cosines(found, expected).min() >= 0.9999


def test_an_index_of_the_full_model_is_searched_at_any_depth_as_python_does(
    site: Path, blank: Callable[[str], Page], tmp_path: Path
) -> None:
    index = dt.Index.build(dt.load(), corpus(), tmp_path / "docs", progress=False)
    queries = corpus()[::20]
    with served(site) as address:
        page = blank(address)
        page.evaluate(LOAD, 1)
        for layers in (1, 3, 6):
            for query, hits in zip(queries, page.evaluate(SEARCH, [queries, {"layers": layers}]), strict=True):
                expected = index.search(query, 10, layers=layers)
                assert hits[0]["id"] == expected[0].id
                scores = {hit["id"]: hit["score"] for hit in hits}
                near = [hit for hit in expected if hit.score > expected[-1].score + 0.02]  # beyond a rounded number
                assert {hit.id for hit in near} <= {*scores}
                assert all(abs(scores[hit.id] - hit.score) < 0.02 for hit in near)


def test_blocks_are_fetched_as_depth_asks_for_them(site: Path, context: BrowserContext) -> None:
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url.partition("?")[0].rpartition("/")[2]))
    with served(site) as address:
        page = context.new_page()
        page.goto(f"{address}app.webmanifest")
        page.evaluate(LOAD, 1)
        first = [name for name in asked if name.endswith(".onnx.packed")]
        assert sorted(first) == ["embeddings.onnx.packed", "exit_1.onnx.packed", "layer_1.onnx.packed"]
        page.evaluate(ENCODE, [["a"], {"layers": 2}])
        later = [name for name in asked if name.endswith(".onnx.packed")][len(first) :]
        assert sorted(later) == ["exit_2.onnx.packed", "layer_2.onnx.packed"]
        asked.clear()
        page.reload()
        page.evaluate(LOAD, 2)  # all of it is in the browser's storage now
        assert not [name for name in asked if name.endswith(".packed")]


def test_a_model_with_other_operators_gets_the_whole_runtime_when_it_needs_it(
    tmp_path: Path, context: BrowserContext, blank: Callable[[str], Page]
) -> None:
    dt.export(dt.load(str(random_bert(tmp_path)), device="cpu"), tmp_path / "blocks", format="blocks")
    with_atan(tmp_path / "blocks" / "exit_2.onnx")
    manifest = Manifest.read(tmp_path / "blocks")
    assert manifest is not None
    manifest.with_files().write()
    encoder = dt.load(tmp_path / "blocks")
    export_web(encoder, tmp_path / "web", index=sample_index(encoder), page=True)
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url.partition("?")[0].rpartition("/")[2]))
    query = corpus()[0]
    with served(tmp_path / "web") as address:
        page = blank(address)
        page.evaluate(LOAD, 1)
        page.evaluate("async () => { window.index = await model.openIndex(); }")
        assert [name for name in asked if ".wasm" in name] == ["ort-wasm-small.wasm.packed"]
        for layers in (2, 1):
            found, hits = page.evaluate(TOGETHER, [corpus(), query, layers])
            expected = encoder.cut(layers, encoder.dims).encode(corpus(), progress=False)
            assert cosines(found, expected).min() >= 0.9999
            assert hits[0]["text"] == query
        assert [name for name in asked if ".wasm" in name][1:] == ["ort-wasm-simd-threaded.wasm.packed"]


def with_atan(path: Path) -> None:
    """The block at `path` gives the arctangents of the embedding, by an operator that no block has."""
    model = onnx.load(path)
    for node in model.graph.node:
        for at, name in enumerate(node.output):
            if name == "embedding":
                node.output[at] = "before"
    model.graph.node.append(onnx.helper.make_node("Atan", ["before"], ["embedding"]))
    onnx.save(model, path)


def test_a_folder_of_before_there_was_a_small_runtime_still_loads(
    site: Path, tmp_path: Path, blank: Callable[[str], Page]
) -> None:
    shutil.copytree(site, tmp_path / "web")
    (tmp_path / "web" / "runtime" / "ort-wasm-small.wasm.packed").unlink()
    manifest = Manifest.read(tmp_path / "web")
    assert manifest is not None
    manifest.with_files().write()
    with served(tmp_path / "web") as address:
        page = blank(address)
        page.evaluate(LOAD, 0)
        assert len(page.evaluate(ENCODE, [["a text"], {}])) == 1


@pytest.mark.parametrize("name", ["model/layer_1.onnx.packed", "index/vectors.i8.packed", "demitasse.json"])
def test_a_damaged_file_is_refused_in_one_sentence(
    name: str, site: Path, tmp_path: Path, context: BrowserContext
) -> None:
    for path in site.rglob("*.*"):
        target = tmp_path / path.relative_to(site)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes() if target != tmp_path / name else b"{}" + path.read_bytes()[2:])
    with served(tmp_path) as address:
        page = context.new_page()
        page.goto(address)
        said = page.locator("#status.wrong")
        expect(said).to_contain_text(name.rpartition("/")[2])
        assert "; " in said.inner_text()


def test_what_was_damaged_on_the_way_or_on_the_device_is_fetched_again(
    site: Path, tmp_path: Path, blank: Callable[[str], Page]
) -> None:
    shutil.copytree(site, tmp_path / "web")
    block = tmp_path / "web" / "model" / "exit_0.onnx.packed"
    right = block.read_bytes()
    block.write_bytes(b"{}" + right[2:])
    with served(tmp_path / "web") as address:
        page = blank(address)
        with pytest.raises(PlaywrightError, match=r"exit_0\.onnx\.packed is not the file that was exported"):
            page.evaluate(LOAD, 0)
        block.write_bytes(right)
        page.evaluate(LOAD, 0)
        page.evaluate(DAMAGE, "model/embeddings.onnx.packed")
        page.evaluate(LOAD, 0)
        assert len(page.evaluate(ENCODE, [["a text"], {"layers": 0}])) == 1


def test_the_page_works_offline_once_loaded_and_then_with_threads(site: Path, context: BrowserContext) -> None:
    wrong: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda problem: wrong.append(str(problem)))
    with served(site) as address:
        page.goto(address)
        page.wait_for_selector(READY)
        expect(page.locator("#results li")).to_have_count(10)
        page.evaluate("async () => { await navigator.serviceWorker.ready; }")
        page.check("#compare")
        expect(page.locator("#same")).to_contain_text("of 10")
        same = int(page.locator("#same").inner_text().partition(" ")[0])
        expect(page.locator("#missing li")).to_have_count(10 - same)
        page.reload()
        page.wait_for_selector(READY)
        assert page.evaluate("crossOriginIsolated")  # by the headers that the service worker adds
    context.set_offline(offline=True)
    page.reload()
    page.wait_for_selector(READY)
    expect(page.locator("#fetched")).to_have_text("0.0 MB")
    page.fill("#query", "how to make better espresso at home")
    page.locator("#layers").fill("6")
    page.locator("#ask button").click()
    expect(page.locator("#status")).to_have_text("10 results with 6 of 6 layers.")
    assert "espresso" in page.locator("#results li").first.inner_text().lower()
    assert not wrong


def test_the_page_loads_on_a_slow_phone(site: Path, context: BrowserContext) -> None:
    page = context.new_page()
    devtools = context.new_cdp_session(page)
    devtools.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    devtools.send("Network.enable")
    slow = {"offline": False, "latency": 60, "downloadThroughput": 9e6 / 8 * 4, "uploadThroughput": 1.5e6 / 8}
    devtools.send("Network.emulateNetworkConditions", slow)
    with served(site) as address:
        page.goto(address)
        page.wait_for_selector(READY)
        expect(page.locator("#results li")).to_have_count(10)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 360, 1280])
def test_the_page_is_readable_and_reachable(width: int, scheme: Any, site: Path, context: BrowserContext) -> None:
    said: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda problem: said.append(str(problem)))
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 780})
    with served(site) as address:
        page.goto(address)
        page.wait_for_selector(READY)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        small = page.evaluate(
            "[...document.querySelectorAll('input:not([type=checkbox]), button, label.check')]"
            ".filter((one) => one.getBoundingClientRect().height < 44).length"
        )
        assert small == 0  # fingers need 44 px
        whole = page.locator("#query").evaluate("(one) => one.scrollWidth <= one.clientWidth")
        assert whole or width < 360  # all of the first query can be read
        named = page.evaluate(
            "[...document.querySelectorAll('input')].every((one) => one.labels.length === 1 && one.labels[0].innerText)"
        )
        assert named
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "query"
        assert contrast(page) >= 4.5
    assert not said


def test_a_search_before_the_model_is_there_changes_nothing(site: Path, context: BrowserContext) -> None:
    page = context.new_page()
    held: list[Route] = []
    context.route("**/demitasse.json", lambda route: held.append(route))
    with served(site) as address:
        page.goto(address)
        page.fill("#query", "espresso")
        page.press("#query", "Enter")
        expect(page.locator("#layers")).to_be_disabled()
        while not held:
            page.wait_for_timeout(10)
        for route in held:
            route.continue_()
        page.wait_for_selector(READY)
        assert page.url == address
        assert "espresso" in page.locator("#results li").first.inner_text().lower()


def test_the_page_can_be_installed(browser: Browser, site: Path, tmp_path: Path) -> None:
    kind = browser.browser_type
    flags = {"executable_path": installed_chromium(), "args": FLAGS, "timeout": PATIENCE}
    with kind.launch_persistent_context(tmp_path, **flags) as context, served(site) as address:  # not incognito
        page = context.new_page()
        page.goto(address)
        page.evaluate("async () => { await navigator.serviceWorker.ready; }")
        devtools = context.new_cdp_session(page)
        assert devtools.send("Page.getInstallabilityErrors") == {"installabilityErrors": []}
        assert devtools.send("Page.getAppManifest")["errors"] == []


def contrast(page: Page) -> float:
    """The least contrast of any text with what is behind it, as WCAG counts."""
    return page.evaluate(
        """() => {
        const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
        const light = ([red, green, blue]) => [red, green, blue]
            .map((value) => value / 255)
            .map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
            .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
        const behind = (element) => {
            for (let at = element; at; at = at.parentElement) {
                const color = numbers(getComputedStyle(at).backgroundColor);
                if (color[3] !== 0) return color;
            }
            return [255, 255, 255];
        };
        return Math.min(...[...document.querySelectorAll("h1, h2, p, label, dt, dd, button, li")]
            .filter((one) => one.innerText)
            .map((one) => [light(numbers(getComputedStyle(one).color)), light(behind(one))].sort((a, b) => b - a))
            .map(([more, less]) => (more + 0.05) / (less + 0.05)));
    }"""
    )
