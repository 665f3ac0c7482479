"""The playground in a real browser, with a real server: it ranks as `encode` does and says what the full model does."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsers import CONTRAST, PATIENCE, STICKS_OUT, launched
from playwright.sync_api import Browser, Page, Request, Route, expect
from prefix_proxy import behind_prefix
from servers import RunningServer, running

import demitasse as dt
from demitasse.host.bundled import corpus

QUERY = "trouble on the way to the airport"
KEY = "sk-of-the-playground"
TOP = 10
Opened = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    """Opens the playground of a server; fails if the page asks anybody else, logs anything or raises an error.

    What Chromium itself logs about a status above 399 is allowed where a test says that there will be one.
    """
    contexts, wrong = [], []

    def open_page(
        url: str, *, refusals: bool = False, before: Callable[[Page], Any] | None = None, **options: Any
    ) -> Page:
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE)
        origin = "/".join(url.split("/")[:3])

        def logged(text: str) -> None:
            if not (refusals and text.startswith("Failed to load resource")):
                wrong.append(text)

        page.on("console", lambda message: logged(message.text))
        page.on("pageerror", lambda problem: wrong.append(str(problem)))
        page.on("request", lambda asked: None if asked.url.startswith((origin, "data:")) else wrong.append(asked.url))
        if before is not None:
            before(page)
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong


def found(page: Page, cut: str, query: str = QUERY) -> None:
    """Wait until the page shows, and tells screen readers, what it found for a query at a cut."""
    expect(page.locator("#said")).to_contain_text(f"at {cut} for {query}.")
    expect(page.locator("#found[aria-busy]")).to_have_count(0)


def asked_for(page: Page, query: str, layers: int, dims: int) -> None:
    """Ask at a cut with the query and the sliders."""
    expect(page.locator("#query")).to_be_enabled()
    page.fill("#query", query)
    page.fill("#layers", str(layers))
    page.fill("#dims", str(page.evaluate("dims => dimStops(view.full.dims).indexOf(dims)", dims)))
    found(page, f"{layers}x{dims}", query)


@dataclass(frozen=True)
class Hit:
    """A row of the results."""

    text: str
    score: str
    there: int  # its rank in the full model
    mark: str


def hits(page: Page) -> list[Hit]:
    return [
        Hit(
            row.locator(".text").inner_text(),
            row.locator(".score").inner_text().split()[-1],
            int(row.locator(".place > [aria-hidden] >> nth=0").inner_text()),
            row.locator(".place b").inner_text(),
        )
        for row in page.locator("#hits li").all()
    ]


def ranked(model: dt.Encoder, texts: list[str], query: str, cut: str, layers: int) -> tuple[list[int], np.ndarray]:
    """What Python finds: a query at a cut among documents of `layers`."""
    documents = model.cut(layers, dt.Cut.parse(cut).dims).encode_document(texts)
    scores = model.similarity(model.cut(cut).encode_query([query]), documents)[0]
    return np.argsort(-scores, kind="stable").tolist(), scores


def expected(model: dt.Encoder, texts: list[str], query: str, cut: str, layers: int = 6) -> list[Hit]:
    order, scores = ranked(model, texts, query, cut, layers)
    whole, _ = ranked(model, texts, query, str(model.full), 6)
    made = []
    for rank, document in enumerate(order[:TOP]):
        there = whole.index(document)
        moved = there - rank
        mark = "=" if not moved else f"▲ {moved}" if moved > 0 else f"▼ {-moved}"
        made.append(Hit(texts[document], f"{scores[document]:.3f}", there + 1, mark))
    return made


def same_hits(shown: list[Hit], wanted: list[Hit]) -> None:
    """Equal, where the last digit of a rounded score may differ."""
    assert [(hit.text, hit.there, hit.mark) for hit in shown] == [(hit.text, hit.there, hit.mark) for hit in wanted]
    for hit, other in zip(shown, wanted, strict=True):
        assert abs(float(hit.score) - float(other.score)) < 0.0015


def embeddings_of(page: Page) -> list[dict[str, Any]]:
    """The bodies of all requests for vectors from now on."""
    bodies: list[dict[str, Any]] = []

    def note(request: Request) -> None:
        if request.url.endswith("/v1/embeddings"):
            bodies.append(json.loads(request.post_data or ""))

    page.on("request", note)
    return bodies


def test_it_ranks_the_sample_as_python_does(opened: Opened, server: RunningServer, model: dt.Encoder) -> None:
    page = opened(server.url)
    expect(page.locator("h1")).to_have_text("demitasse")
    assert page.input_value("#texts").splitlines() == corpus()
    for layers, dims in ((3, 128), (1, 32), (6, 96)):
        asked_for(page, QUERY, layers, dims)
        wanted = expected(model, corpus(), QUERY, f"{layers}x{dims}")
        same_hits(hits(page), wanted)
        shared, in_place = sum(hit.there <= TOP for hit in wanted), sum(hit.mark == "=" for hit in wanted)
        assert 0 < shared < TOP  # or the cuts above are badly chosen
        expect(page.locator("#agreement")).to_have_text(
            f"{shared} of the top 10 are the full model’s; {in_place or 'none'} in the same place."
        )
        whole, _ = ranked(model, corpus(), QUERY, "6x384", 6)
        order, _ = ranked(model, corpus(), QUERY, f"{layers}x{dims}", 6)
        missed = [document for document in whole[:TOP] if document not in order[:TOP]]
        assert page.locator("#missed-hits .text").all_inner_texts() == [corpus()[document] for document in missed]
        assert page.locator("#missed-hits .place").all_inner_texts() == [
            f"{whole.index(document) + 1} there, {order.index(document) + 1} here" for document in missed
        ]
        assert page.locator("#dots .same").count() == in_place
        assert page.locator("#dots .near").count() == shared - in_place
        assert page.locator("#dots .out").count() == TOP - shared
        times = [float(cell) for cell in page.locator("#times td").all_inner_texts()]
        assert len(times) == 10
        assert all(time > 0 for time in (times[0], times[1], *times[-4:]))  # the model's, and those in all
    asked_for(page, QUERY, 6, 384)
    assert page.inner_text("#agreement") == "This is the full model."
    assert {hit.mark for hit in hits(page)} == {"="}
    expect(page.locator("#missed")).to_be_hidden()


def test_a_slider_changes_the_cut_of_the_query_alone(opened: Opened, server: RunningServer, model: dt.Encoder) -> None:
    page = opened(server.url)
    asked = embeddings_of(page)
    asked_for(page, QUERY, 3, 128)
    documents = [body for body in asked if body["input_type"] == "document"]
    assert [text for body in documents for text in body["input"]] == corpus()  # each once
    assert {(body["layers"], body["dimensions"]) for body in documents} == {(6, 384)}
    assert max(len(body["input"]) for body in documents) <= 64
    del asked[:]
    asked_for(page, QUERY, 2, 64)
    queries = [(body["layers"], body["dimensions"], body["input"]) for body in asked]
    assert queries[-1] == (2, 64, [QUERY])
    assert {body["input_type"] for body in asked} == {"query"}  # the documents are there
    del asked[:]
    asked_for(page, "an old song", 2, 64)
    assert [(body["layers"], body["dimensions"], body.get("min_layers")) for body in asked[-2:]] == [
        (2, 64, None),
        (6, 384, 6),  # what it is compared with is never shed
    ]
    same_hits(hits(page), expected(model, corpus(), "an old song", "2x64"))


def test_documents_may_be_cut_too(opened: Opened, server: RunningServer, model: dt.Encoder) -> None:
    page = opened(server.url)
    asked_for(page, QUERY, 2, 64)
    asked = embeddings_of(page)
    page.check("#depth input[value=same]", force=True)
    wanted = expected(model, corpus(), QUERY, "2x64", layers=2)
    expect(page.locator("#hits li >> nth=0 >> .score")).to_have_text(f"cosine {wanted[0].score}")
    same_hits(hits(page), wanted)
    documents = [body for body in asked if body["input_type"] == "document"]
    assert {body["layers"] for body in documents} == {2}
    assert [text for body in documents for text in body["input"]] == corpus()
    del asked[:]
    page.check("#depth input[value=all]", force=True)
    wanted = expected(model, corpus(), QUERY, "2x64")
    expect(page.locator("#hits li >> nth=0 >> .score")).to_have_text(f"cosine {wanted[0].score}")
    same_hits(hits(page), wanted)
    assert "document" not in {body["input_type"] for body in asked}  # their vectors are kept


def test_pasted_lines_are_text_and_never_markup(opened: Opened, server: RunningServer, model: dt.Encoder) -> None:
    page = opened(server.url)
    lines = [
        "<img src=x onerror=\"console.log('out')\">",
        "</textarea><script>console.log('out')</script>",
        "{{data}} & &amp; 'quoted' \\u003c",
        "a café 咖啡 ☕",
    ]
    page.fill("#texts", "\r\n\n".join(f"  {line}  " for line in lines))
    expect(page.locator("#documents-note")).to_have_text("4 lines. One text per line.")
    query = "<img src=x onerror=console.log(1)>'\"; echo $(id)"
    asked_for(page, query, 3, 128)
    same_hits(hits(page), expected(model, lines, query, "3x128"))
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2  # the data and the script of the page
    assert "'\\''" in page.inner_text("#command")  # quoted for the shell
    asked = embeddings_of(page)
    page.fill("#texts", "\n".join([*lines, "one more", lines[0]]))
    expect(page.locator("#hits li")).to_have_count(6)
    found(page, "3x128", query)
    documents = [body["input"] for body in asked if body["input_type"] == "document"]
    assert documents == [["one more"]]  # the others are kept, and twice the same is sent once
    page.fill("#texts", "")
    expect(page.locator("#empty")).to_contain_text("Paste lines")
    assert page.locator("#hits li").count() == 0
    page.click("#sample")
    found(page, "3x128", query)
    assert page.input_value("#texts").splitlines() == corpus()


def test_batches_keep_to_the_limits_of_the_server(opened: Opened) -> None:
    lines = [f"line {number} {'word ' * (number % 40)}" for number in range(60)]
    with running("--max-inputs", 7, "--max-tokens", 100, "--max-bytes", 2000) as server:
        page = opened(server.url)
        asked = embeddings_of(page)
        page.fill("#texts", "\n".join(lines))
        asked_for(page, "a line", 3, 128)
    documents = [body for body in asked if body["input_type"] == "document"]
    assert [text for body in documents for text in body["input"]] == [line.strip() for line in lines]
    assert len(documents) > 60 / 7  # no reply was a refusal, or the fixture would have seen it logged


def test_a_key_is_asked_for_and_stays_in_the_tab(opened: Opened) -> None:
    with running(DEMITASSE_API_KEY=KEY) as server:
        page = opened(server.url, refusals=True)
        expect(page.locator("#key")).to_be_focused()
        assert page.inner_text("h1") == "This server needs a key"
        assert page.inner_text("#problem") == ""
        page.keyboard.type("a-wrong-key")
        page.keyboard.press("Enter")
        expect(page.locator("#problem")).to_have_text(
            "401 this server needs an API key, and the request has none that it knows; send the header "
            "authorization: Bearer KEY."
        )
        expect(page.locator("#search")).to_be_hidden()
        assert page.evaluate("sessionStorage.length") == 0
        page.fill("#key", KEY)
        page.keyboard.press("Enter")
        expect(page.locator("#query")).to_be_focused()
        expect(page.locator("#key-form")).to_be_hidden()
        assert page.inner_text("#problem") == ""
        asked_for(page, QUERY, 3, 128)
        expect(page.locator("#load-note")).to_have_text("live")  # the stream has the key as well
        assert "$DEMITASSE_API_KEY" in page.inner_text("#command")
        assert KEY not in page.content()
        assert page.evaluate("[localStorage.length, document.cookie, sessionStorage.length]") == [0, "", 1]
        page.reload()
        asked_for(page, QUERY, 2, 64)
        page.click("#forget")
        expect(page.locator("#key")).to_be_focused()
        assert page.evaluate("sessionStorage.length") == 0


def test_load_and_shedding_are_shown(opened: Opened) -> None:
    # No query can be answered in so short a time, so each gets as few layers as it may.
    with running("--shed", "--shed-ms", 0.001, "--min-layers", 2) as server:
        page = opened(server.url)
        page.fill("#query", QUERY)
        page.fill("#layers", "5")
        expect(page.locator("#shed")).to_have_text("The server is busy: this query got 2 of the 5 layers it asked for.")
        expect(page.locator("#cut")).to_have_text("2x128")
        found(page, "2x128")
        expect(page.locator("#load-note")).to_have_text("live")
        load = server.ask("GET", "/load").json
        assert load["shed_layers_total"] >= 3
        expect(page.locator("#tile-shed strong")).to_have_text(f"{load['shed_layers_total']:.0f}")
        expect(page.locator("#tile-waiting strong")).to_have_text("0")
        expect(page.locator("#tile-allowed strong")).to_contain_text("of 6")
        expect(page.locator("#depths .bars div >> nth=2")).to_have_attribute(
            "title", f"{load['inputs_by_layers']['2']:.0f} texts at 2 layers"
        )
        expect(page.locator("#load-more")).to_contain_text("1 worker ready")
        assert page.get_attribute("#tile-rate path", "d")


def test_where_too_many_watch_it_asks_now_and_then(opened: Opened) -> None:
    with running() as server:
        watching = [server.connection().__enter__() for _ in range(16)]
        for connection in watching:
            connection.request("GET", "/load", headers={"accept": "text/event-stream"})
            connection.getresponse().readline()
        page = opened(server.url, refusals=True)
        expect(page.locator("#load-note")).to_have_text("asked every 2 seconds: 16 clients are watching already")
        expect(page.locator("#tile-allowed strong")).to_have_text("6 of 6")
        assert page.inner_text("#problem") == ""
        for connection in watching:
            connection.close()


REFUSING = """
import demitasse.serving.engine as engine
from demitasse.serving import refusals
really = engine.Engine.embed
problems = {
    "full": refusals.QueueFull("7 requests are waiting", 2.4),
    "late": refusals.DeadlineMissed("no answer within 1 seconds; allow more time"),
}
async def embed(self, asked):
    if asked.texts[0] in problems:
        raise problems[asked.texts[0]]
    return await really(self, asked)
engine.Engine.embed = embed
"""


def test_refusals_are_shown_as_their_sentence(opened: Opened) -> None:
    with running(setup=REFUSING) as server:
        page = opened(server.url, refusals=True)
        asked_for(page, QUERY, 3, 128)
        problem = page.locator("#problem")
        page.fill("#query", "full")
        expect(problem).to_have_text("429 7 requests are waiting; try again in 2.4 seconds.Try again")
        expect(page.locator("main.stale")).to_have_count(1)  # they are those of another query
        page.fill("#query", "late")
        expect(problem).to_contain_text("504 no answer within 1 seconds; allow more time.")
        page.fill("#query", QUERY)
        found(page, "3x128")
        expect(problem).to_be_empty()
        expect(page.locator("main.stale")).to_have_count(0)
        server.stop()
        page.fill("#query", "after the end")
        expect(problem).to_have_text("the server does not answer; see whether it is still running.Try again")
        expect(page.locator("#load-note")).to_have_text("no connection; trying again")


SLOW_LOAD = """
import pathlib, time
import demitasse.serving.worker as worker
really = worker.load
def load(*arguments, **named):
    while not pathlib.Path({path!r}).exists():
        time.sleep(0.01)
    return really(*arguments, **named)
worker.load = load
"""


def test_it_waits_for_the_model(opened: Opened, tmp_path: Path) -> None:
    gate = tmp_path / "go"
    with running(ready=False, setup=SLOW_LOAD.format(path=str(gate))) as server:
        page = opened(server.url, refusals=True)
        expect(page.locator("#problem")).to_contain_text("503 the model is being loaded; try again in a moment.")
        gate.touch()
        asked_for(page, QUERY, 3, 128)
        expect(page.locator("#problem")).to_be_empty()


def test_a_query_that_is_overtaken_is_cancelled(opened: Opened, server: RunningServer, model: dt.Encoder) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        if json.loads(route.request.post_data or "")["input"] == ["first"]:
            held.append(route)
        else:
            route.continue_()

    page = opened(server.url, before=lambda page: page.route("**/v1/embeddings", hold))
    asked_for(page, QUERY, 3, 128)
    with page.expect_request(lambda request: '"input":["first"]' in (request.post_data or "")):
        page.fill("#query", "first")
    with page.expect_event("requestfailed") as failed:
        page.fill("#query", "second")
    assert failed.value.failure == "net::ERR_ABORTED"
    assert len(held) == 1
    found(page, "3x128", "second")
    same_hits(hits(page), expected(model, corpus(), "second", "3x128"))
    assert page.inner_text("#problem") == ""


def test_documents_on_their_way_are_not_sent_again(opened: Opened, server: RunningServer, model: dt.Encoder) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        if json.loads(route.request.post_data or "")["input_type"] == "document" and not held:
            held.append(route)
        else:
            route.continue_()

    page = opened(server.url, before=lambda page: page.route("**/v1/embeddings", hold))
    asked = embeddings_of(page)
    with page.expect_request("**/v1/embeddings"):
        page.fill("#query", "first")
    expect(page.locator("#progress")).to_be_visible()
    expect(page.locator("#progress-said")).to_have_text(f"0 of {len(corpus())} embedded at 6 layers")
    page.fill("#query", "second")
    page.fill("#layers", "2")
    held[0].continue_()
    found(page, "2x128", "second")
    same_hits(hits(page), expected(model, corpus(), "second", "2x128"))
    expect(page.locator("#progress")).to_be_hidden()
    documents = [body for body in asked if body["input_type"] == "document"]
    assert [text for body in documents for text in body["input"]] == corpus()  # each once
    assert ["first"] not in [body["input"] for body in asked]


def focused(page: Page) -> str:
    return str(
        page.evaluate("document.activeElement.id || document.activeElement.name || document.activeElement.tagName")
    )


OUTLINED = """() => {
    const one = document.activeElement, style = getComputedStyle(one.name === "depth" ? one.nextElementSibling : one);
    return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
}"""


def test_everything_works_with_the_keyboard(opened: Opened, server: RunningServer, model: dt.Encoder) -> None:
    page = opened(server.url)
    expect(page.locator("#query")).to_be_enabled()
    visited: list[str] = []
    while not visited or focused(page) != "BODY":
        page.keyboard.press("Tab")
        visited.append(focused(page))
        assert visited[-1] == "BODY" or page.evaluate(OUTLINED), visited
    examples = ["BUTTON"] * 4
    assert visited == [
        *("A", "query", *examples, "layers", "dims", "depth", "sample", "clear", "texts", "copy-command", "BODY")
    ]
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type(QUERY)
    found(page, "3x128")
    for _ in range(5):
        page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    found(page, "2x128")
    assert page.get_attribute("#layers", "aria-valuetext") == "2 of 6 layers"
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    found(page, "2x8")
    assert page.get_attribute("#dims", "aria-valuetext") == "8 of 384 dims"
    same_hits(hits(page), expected(model, corpus(), QUERY, "2x8"))
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#depth input[value=same]")).to_be_checked()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # Clear
    expect(page.locator("#texts")).to_be_focused()
    page.keyboard.type("a taxi to the airport\nan apple")
    expect(page.locator("#hits li")).to_have_count(2)
    found(page, "2x8")
    assert hits(page)[0].text == "a taxi to the airport"


def test_every_control_has_a_name(opened: Opened, server: RunningServer) -> None:
    page = opened(server.url)
    expect(page.locator("#query")).to_be_enabled()
    for role, name in (
        ("searchbox", "What are you looking for?"),
        ("slider", "Layers of the query"),
        ("slider", "Dims of query and documents"),
        ("group", "Layers of the documents"),
        ("radio", "all 6"),
        ("radio", "as many as the query"),
        ("textbox", "Documents"),
        ("region", "Results"),
        ("region", "Load of the server"),
    ):
        expect(page.get_by_role(role, name=name)).to_have_count(1)  # type: ignore[arg-type]
    assert page.get_attribute("#said", "aria-live") == "polite"
    assert page.get_attribute("#problem", "role") == "alert"


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_sticks_out_at_any_width(opened: Opened, width: int) -> None:
    with running("--name", "an/unreasonably-" + "long" * 30, setup=REFUSING) as server:
        page = opened(server.url, refusals=True, viewport={"width": width, "height": 740})
        page.fill("#texts", "\n".join(["unbreakable" * 40, *corpus()]))
        asked_for(page, "unbreakable" * 20, 2, 64)
        for query in ("unbreakable" * 20, "full"):
            page.fill("#query", query)
            if query == "full":
                expect(page.locator("#problem")).to_contain_text("429")
            expect(page.locator("#load-note")).to_have_text("live")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(STICKS_OUT) == []


TEXTS = """h1, #summary, #summary a, .note, #examples, #examples button, .dial label, .dial small, .ends, .cut,
    #agreement, .dots-key, #times th, #times td, .heads span, .rank, #hits .text, .score, .place, .place b, h3,
    #missed-hits span, .tile span, .tile strong, .bars div, .pick input:checked + span, #texts, #query, #command"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(opened: Opened, scheme: str) -> None:
    with running(setup=REFUSING) as server:
        page = opened(server.url, refusals=True, color_scheme=scheme)
        assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
        asked_for(page, QUERY, 2, 64)
        expect(page.locator("#load-note")).to_have_text("live")
        page.fill("#layers", "3")
        found(page, "3x64")
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(19, 21, 23)") == (scheme == "dark")
        contrasts = page.evaluate(CONTRAST, TEXTS)
        assert len(contrasts) > 100
        assert min(contrasts) >= 4.5
        page.fill("#query", "full")
        expect(page.locator("#problem")).to_contain_text("429")
        assert min(page.evaluate(CONTRAST, "#problem p, #problem button")) >= 4.5


COUNT_MOTION = """() => {
    window.motions = 0;
    const really = Element.prototype.animate;
    Element.prototype.animate = function (...given) { window.motions++; return really.apply(this, given); };
}"""


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_rows_move_only_for_those_who_want_it(opened: Opened, server: RunningServer, motion: str) -> None:
    page = opened(server.url, reduced_motion=motion)
    page.evaluate(COUNT_MOTION)
    asked_for(page, QUERY, 6, 384)
    asked_for(page, QUERY, 1, 16)
    assert (page.evaluate("window.motions") > 0) == (motion == "no-preference")


@pytest.mark.parametrize("slash", ["", "/"])
def test_it_works_under_a_path_of_a_proxy(opened: Opened, server: RunningServer, model: dt.Encoder, slash: str) -> None:
    with behind_prefix("/embed", server.port) as url:
        page = opened(f"{url}{slash}")
        asked_for(page, QUERY, 3, 128)
        same_hits(hits(page), expected(model, corpus(), QUERY, "3x128"))
        expect(page.locator("#load-note")).to_have_text("live")
        assert page.evaluate("document.querySelector('#summary a').href") == f"{url}/docs"
        assert page.inner_text("#command").startswith(f"curl {url}/v1/embeddings ")


def test_the_command_gives_the_vector_of_the_query(opened: Opened, server: RunningServer, model: dt.Encoder) -> None:
    page = opened(server.url)
    asked_for(page, 'it\'s a "small" $coffee', 2, 64)
    words = shlex.split(page.inner_text("#command"))
    ended = subprocess.run([*words, "--silent"], capture_output=True, check=True)
    vector = json.loads(ended.stdout)["data"][0]["embedding"]
    np.testing.assert_allclose(vector, model.cut("2x64").encode_query(['it\'s a "small" $coffee'])[0], atol=2e-6)
