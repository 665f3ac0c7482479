"""The report in a real browser: it chooses what Python chooses, follows its sliders, and is readable everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from browsers import CONTRAST, PATIENCE, STICKS_OUT, launched
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page, expect
from profiles import budgets, made_profile, profiles

import demitasse as dt
from demitasse.display.cost_table import in_bytes
from demitasse.planning.budget import PREFER, neighbours
from demitasse.planning.corpus_cost import corpus_costs, corpus_front
from demitasse.planning.deploy import commands, python
from demitasse.planning.profile import AXES, MeasuredCut, Profile, Timing
from demitasse.planning.profile_json import measured_as_plain

OTHER = MeasuredCut(
    dt.Cut(6, 384), "fp32", "float32", 70.0, Timing(8.0, 12.0, 300.0, 0.03), 90.0, 1536, "org/other-model"
)
Opened = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    """Opens a report from its file; fails if the page uses the network, logs anything or raises an error."""
    contexts, wrong = [], []

    def open_page(profile: Profile, *compare: Profile, **options: Any) -> Page:
        dt.report(profile, tmp_path / "report.html", compare=compare)
        options = {"viewport": {"width": 1280, "height": 900}, **options}
        contexts.append(browser.new_context(permissions=["clipboard-read", "clipboard-write"], **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda problem: wrong.append(str(problem)))
        page.on("request", lambda asked: wrong.append(asked.url) if not asked.url.startswith(("file:", "data:")) else 0)
        page.goto((tmp_path / "report.html").as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong


@pytest.fixture(scope="module")
def script(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page whose functions are called with other rows."""
    path = tmp_path_factory.mktemp("script") / "report.html"
    dt.report(made_profile(), path)
    page = browser.new_page()
    page.goto(path.as_uri())
    yield page
    page.close()


CHOOSE = """([rows, full, budgets]) => budgets.map(budget => {
    const { row, broken } = choose(rows, budget, full);
    const { cheaper, better } = neighbours(rows, budget, row, full);
    return [rows.indexOf(row), broken, rows.indexOf(cheaper), rows.indexOf(better),
            broken.map(limit => WORDS[limit](enough(budget, limit, row, full)))];
})"""


def chosen(profile: Profile, budget: dt.Budget) -> list[Any]:
    """What Python chooses, in the form of the page."""
    enough: list[str] = []
    try:
        best, limits = profile.best(budget), ()
    except dt.NothingFits as problem:
        best, limits = problem.nearest, problem.limits
        enough = str(problem).partition("; allow ")[2].split(" and ")
    options = (best, *neighbours(profile.rows, budget, best, profile.full.quality))
    indices = [-1 if option is None else profile.rows.index(option) for option in options]
    return [indices[0], list(limits), *indices[1:], enough]


def in_the_page(script: Page, profile: Profile, asked: list[dt.Budget]) -> Any:
    rows = [measured_as_plain(measured) for measured in profile.rows]
    return script.evaluate(CHOOSE, [rows, profile.full.quality, [asdict(budget) for budget in asked]])


@settings(max_examples=80, deadline=None)
@given(profiles(), st.lists(budgets(), min_size=1, max_size=10))
def test_the_page_chooses_what_python_does(script: Page, profile: Profile, asked: list[dt.Budget]) -> None:
    assert in_the_page(script, profile, asked) == [chosen(profile, budget) for budget in asked]


def test_the_page_chooses_what_python_does_on_a_grid_of_budgets(script: Page) -> None:
    profile = made_profile(slower=1.0371, worse=0.123)
    limits = ((None, 0.3, 2.5), (None, 700), (None, 16, 100), (None, 7.5), (None, 0.97, 75.5, 99))
    asked = [
        dt.Budget(latency_ms=a, texts_per_second=b, vector_bytes=c, model_mb=d, quality=e, prefer=prefer)
        for a, b, c, d, e in product(*limits)
        for prefer in (None, *PREFER)
    ]
    assert in_the_page(script, profile, asked) == [chosen(profile, budget) for budget in asked]


@settings(max_examples=40, deadline=None)
@given(profiles(), st.sets(st.sampled_from(AXES), min_size=1).map(sorted))
def test_the_page_has_the_same_front(script: Page, profile: Profile, axes: list[str]) -> None:
    rows = [measured_as_plain(measured) for measured in profile.rows]
    indices = script.evaluate("([rows, axes]) => front(rows, axes).map(row => rows.indexOf(row))", [rows, axes])
    assert {profile.rows[index] for index in indices} == set(profile.front(*axes))


@pytest.mark.parametrize(
    ("model", "made"),
    [
        ("built-in", {"runs_on": "onnxruntime, cpu"}),
        ("org/tiny", {"runs_on": "cpu"}),
        ("org/tiny", {"runs_on": "cpu", "exported": []}),
        ("org/tiny", {"runs_on": "cpu", "exported": ["int8"]}),
        ("it's a 'model'", {"runs_on": "cuda:0"}),
        ('my "own" one', {"runs_on": "cpu", "exported": ["fp32", "int8"]}),
    ],
)
def test_what_to_type_is_what_plan_prints(opened: Opened, model: str, made: dict[str, Any]) -> None:
    profile = replace(made_profile(), model=model, made=made)
    typed = opened(profile).evaluate("rows.map(commands)")
    assert [one["shell"] for one in typed] == [commands(profile, measured) for measured in profile.rows]
    assert [one["python"] for one in typed] == [python(profile, measured) for measured in profile.rows]


COSTS = """([rows, texts, price]) => {
    const made = rows.map(asRow);
    return corpusCosts(made, texts, price).map(cost => [made.indexOf(cost.row),
     cost.hours, cost.vectors, cost.index, cost.money, inBytes(cost.vectors)]);
}"""


@pytest.mark.parametrize(("count", "price"), [(1_000_000, None), (1e9, 0.5)])
def test_a_corpus_costs_in_the_page_what_plan_says(script: Page, count: float, price: float | None) -> None:
    profile = made_profile()
    among = [row for row in profile.rows if row.vectors == "int8"] or list(profile.rows)
    expected = corpus_costs(corpus_front(profile, among), count, None, price)
    rows = [measured_as_plain(measured) for measured in profile.rows]
    found = script.evaluate(COSTS, [rows, count, price])
    assert len(found) == len(expected) > 1
    by_row = {index: numbers for index, *numbers in found}
    for cost in expected:
        *numbers, told = by_row[profile.rows.index(cost.measured)]
        assert numbers == pytest.approx([cost.hours, cost.vector_bytes, cost.index_bytes, cost.euros])
        assert told == in_bytes(cost.vector_bytes)


def test_the_corpus_that_is_typed_is_what_is_shown(opened: Opened) -> None:
    page = opened(made_profile())
    first = page.locator("#costs tbody tr").first.locator("td")
    before = first.nth(5).inner_text()
    page.get_by_label("texts", exact=True).fill("1e9")
    page.get_by_label("price of an hour").fill("2")
    expect(first.nth(5)).not_to_have_text(before)
    expect(first).to_have_count(9)
    expect(page.locator("#corpus-note")).to_contain_text("1,000,000,000 texts")
    page.get_by_label("texts", exact=True).fill("0")
    expect(page.locator("#costs tbody tr")).to_have_count(0)
    expect(page.locator("#corpus-note")).to_contain_text("Type how many texts")


def freeze_timers(page: Page) -> None:
    """Keep messages that go away by themselves, however slow the machine is."""
    page.evaluate("window.setTimeout = () => 0")


def best_of(page: Page) -> list[str]:
    return [page.inner_text("#cut"), page.inner_text("#answer .kind")]


def written(measured: MeasuredCut) -> list[str]:
    layers, dims = measured.cut
    layer = f"{layers} layer{'s' * (layers != 1)}"
    return [str(measured.cut), f"{layer}, {dims} dims; {measured.precision} model, {measured.vectors} vectors"]


def test_it_opens_with_a_recommendation(opened: Opened) -> None:
    profile = made_profile()
    page = opened(profile)
    best = profile.best(dt.Budget(quality=0.97))
    assert page.title() == "tiny: quality and cost of each cut"
    assert best_of(page) == written(best)
    assert page.inner_text("#command") == commands(profile, best)[-1]
    assert page.inner_text("#python") == f"import demitasse as dt\nvectors = {python(profile, best)}"
    assert "Spearman, built-in sample" in page.inner_text("#summary")
    assert "A Processor, 2 cores" in page.inner_text("#summary")
    expect(page.locator("#heat td.best")).to_have_text(f"{best.quality:.1f}")
    freeze_timers(page)
    page.click("#answer button >> nth=0")
    expect(page.locator("#answer button >> nth=0")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == commands(profile, best)[-1]


def test_the_sliders_move_the_recommendation(opened: Opened) -> None:
    profile = made_profile()
    page = opened(profile)
    page.click("#clear")
    assert best_of(page) == written(profile.best(dt.Budget()))
    met = set()
    for limit, key in (("quality", "ArrowRight"), ("latency_ms", "ArrowLeft"), ("vector_bytes", "ArrowLeft")):
        page.click("#clear")
        for _ in range(4):
            page.press(f"#slide-{limit}", key)
            value = float(page.input_value(f"#type-{limit}")) / (100 if limit == "quality" else 1)
            assert best_of(page) == written(profile.best(dt.Budget(**{limit: value})))
            met.add((limit, page.inner_text("#answer")))
    assert len(met) > 6


def test_numbers_may_be_typed_and_a_preference_picked(opened: Opened) -> None:
    profile = made_profile()
    page = opened(profile)
    page.fill("#type-quality", "91.5")
    page.fill("#type-latency_ms", "2.25")
    page.fill("#type-model_mb", "20")
    page.fill("#type-texts_per_second", "400")
    for prefer in ("latency", "vectors", "model", "quality"):
        page.check(f"#prefer input[value={prefer}]", force=True)
        budget = dt.Budget(quality=0.915, latency_ms=2.25, model_mb=20, texts_per_second=400, prefer=prefer)
        assert best_of(page) == written(profile.best(budget))
    page.fill("#type-quality", "")
    assert best_of(page) == written(profile.best(replace(budget, quality=None)))
    page.fill("#type-quality", "400")  # more than all of it is all of it
    assert "at least 100% of the full quality" in page.inner_text("#answer .none")


def test_if_nothing_fits_it_names_the_limit_and_offers_the_nearest(opened: Opened) -> None:
    profile = made_profile()
    page = opened(profile)
    page.fill("#type-latency_ms", "0.2")
    with pytest.raises(dt.NothingFits) as caught:
        profile.best(dt.Budget(quality=0.97, latency_ms=0.2))
    message = page.inner_text("#answer .none")
    assert message.removesuffix(".").lower() == str(caught.value).partition(";")[0]
    assert best_of(page) == written(caught.value.nearest)
    assert page.locator(".limit.binds").count() == len(caught.value.limits)
    assert page.locator("#command").count() == 0
    page.click("#allow")
    assert page.locator("#answer .none").count() == 0
    assert best_of(page)[0] == str(caught.value.nearest.cut)


def test_hovering_shows_the_numbers(opened: Opened) -> None:
    profile = replace(made_profile(), others=(OTHER,))
    page = opened(profile)
    tip = page.locator("#tip")
    expect(tip).to_be_hidden()
    page.hover("#heat td >> nth=0")
    expect(tip).to_contain_text("3x32")
    ring = page.locator("#chart .ring").bounding_box()
    assert ring is not None
    page.mouse.move(ring["x"] + ring["width"] / 2, ring["y"] + ring["height"] / 2)
    best = profile.best(dt.Budget(quality=0.97))
    expect(tip).to_contain_text(f"{best.quality:.1f}")
    expect(tip).to_contain_text(f"{best.timing.p95_ms:.2f} ms")
    page.hover("h1")
    expect(tip).to_be_hidden()
    page.hover("#chart path.mark[style] >> nth=0")
    expect(tip).to_contain_text("org/other-model")


def test_the_figures_work_with_the_keyboard(opened: Opened) -> None:
    profile = made_profile()
    page = opened(profile)
    tip, front = page.locator("#tip"), profile.front("quality", "latency")
    page.focus("#chart")
    for measured in front[:3]:
        page.keyboard.press("ArrowRight")
        expect(tip.locator("strong")).to_have_text(str(measured.cut))
        expect(tip).to_contain_text(f"{measured.quality:.1f}")
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.focus("#heat td.best")
    expect(tip.locator("strong")).to_have_text(page.inner_text("#cut"))
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    expect(tip.locator("strong")).to_have_text("2x32")
    page.keyboard.press("ArrowLeft")  # the edge
    expect(tip.locator("strong")).to_have_text("2x32")


def test_a_tap_shows_the_numbers(opened: Opened) -> None:
    page = opened(made_profile(), viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page.tap("#heat td >> nth=1")
    expect(page.locator("#tip strong")).to_have_text("3x128")
    page.locator("#chart").scroll_into_view_if_needed()
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")  # scrolled
    page.tap("#chart .ring", force=True)
    expect(page.locator("#tip strong")).to_have_text(page.inner_text("#cut"))


def test_the_map_shows_the_precision_and_vectors_picked(opened: Opened) -> None:
    profile = made_profile()
    page = opened(profile)
    page.check("#precision input[value=fp32]", force=True)
    page.check("#vectors input[value=binary]", force=True)
    picked = sorted(profile.select((), ["fp32"], ["binary"]), key=lambda one: (-one.cut.layers, one.cut.dims))
    assert page.locator("#heat td").all_inner_texts() == [f"{one.quality:.1f}" for one in picked]
    page.fill("#type-latency_ms", "1")  # the map stays as it is when the recommendation changes
    assert page.locator("#heat td").all_inner_texts() == [f"{one.quality:.1f}" for one in picked]
    assert page.locator("#heat td.out").count() == sum(
        one.timing.p95_ms > 1 or profile.share(one) < 0.97 for one in picked
    )


BOXES = """[byId("chart"), ...document.querySelectorAll("#chart .mark")].map(one => one.getBoundingClientRect())
    .map(box => [box.left, box.top, box.right, box.bottom])"""


@pytest.mark.parametrize("axis", ["latency", "speed", "vectors", "model"])
def test_the_chart_shows_any_cost(opened: Opened, axis: str) -> None:
    page = opened(replace(made_profile(), others=(OTHER,)), replace(made_profile(worse=2.0), model="another"))
    page.check(f"#axis input[value={axis}]", force=True)
    page.fill("#type-vector_bytes", "64")
    frame, *marks = page.evaluate(BOXES)
    assert len(marks) == len(made_profile().rows) + 1 + len(made_profile().front("quality", "latency"))
    assert all(frame[0] < left and frame[1] < top for left, top, _, _ in marks)
    assert all(right < frame[2] and bottom < frame[3] for _, _, right, bottom in marks)


def test_the_table_is_sorted_and_copied(opened: Opened) -> None:
    profile = replace(made_profile(), others=(OTHER,))
    page = opened(profile)
    freeze_timers(page)
    page.check("#shown input[value=all]", force=True)
    assert page.locator("#rows tbody tr").count() == len(profile.rows) + 1
    page.click("#rows th button:text('p95 ms')")
    page.click("#copy-table")
    expect(page.locator("#copy-table")).to_have_text("Copied")
    lines = [line.split("\t") for line in page.evaluate("navigator.clipboard.readText()").splitlines()]
    column = lines[0].index("p95 ms")
    times = [float(line[column]) for line in lines[1:]]
    assert times == sorted([measured.timing.p95_ms for measured in profile.rows] + [12.0])
    assert {len(line) for line in lines} == {len(lines[0])}
    assert lines[-1][:2] == ["6x384", "org/other-model"]
    page.click("#rows th button:text('p95 ms')")
    assert page.inner_text("#rows tbody tr >> nth=0").startswith("6x384")
    assert page.get_attribute("#rows th:has(button:text('p95 ms'))", "aria-sort") == "descending"
    page.check("#shown input[value=front]", force=True)
    assert page.locator("#rows tbody tr").count() == len(profile.front()) + 1


LONG = "an/unreasonably-" + "long" * 30


@pytest.mark.parametrize("width", [360, 768, 1280])
@pytest.mark.parametrize("model", ["tiny", LONG])
def test_nothing_sticks_out_at_any_width(opened: Opened, width: int, model: str) -> None:
    profile = replace(made_profile(), model=model, others=(replace(OTHER, name=model),), made={"notes": [LONG]})
    page = opened(profile, viewport={"width": width, "height": 740})
    for limit in (None, "0.01"):
        if limit:
            page.fill("#type-latency_ms", limit)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(STICKS_OUT) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(opened: Opened, scheme: str) -> None:
    first = made_profile().rows[0]
    even = [replace(first, cut=cut, quality=50 + index) for index, cut in enumerate(dt.grid(range(7), range(32, 39)))]
    page = opened(replace(made_profile(), rows=tuple(even)), color_scheme=scheme)  # every shade
    assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
    page.hover("#heat td >> nth=0")
    contrasts = page.evaluate(CONTRAST, "#heat td, .pick input:checked + span, #answer .cut, #tip")
    assert len(contrasts) > len(even)
    assert min(contrasts) >= 4.5


ALONE = replace(made_profile(), rows=made_profile().rows[:1], quality_error=0.0)
BELOW = replace(made_profile(), rows=tuple(replace(one, quality=one.quality - 90) for one in made_profile().rows))


@pytest.mark.parametrize("profile", [ALONE, BELOW], ids=["one row", "quality below zero"])
def test_unusual_profiles_are_readable_too(opened: Opened, profile: Profile) -> None:
    page = opened(profile)
    budget = dt.Budget(quality=0.97) if profile is ALONE else dt.Budget()
    assert best_of(page) == written(profile.best(budget))
    for axis in ("speed", "vectors", "model"):
        page.check(f"#axis input[value={axis}]", force=True)
    page.press("#slide-latency_ms", "ArrowLeft")
    assert "NaN" not in page.inner_html("body")


def test_names_are_text_and_never_markup(opened: Opened) -> None:
    name = "</script><img src=x onerror=\"console.log('out')\">{{data}}"
    page = opened(replace(made_profile(), model=name, measure=name, others=(replace(OTHER, name=name),)))
    assert page.inner_text("h1") == name
    assert page.locator("img").count() == 0
