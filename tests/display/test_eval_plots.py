"""Pictures of evaluations, read back as SVG; and the functions of `charts` on their own axes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from demitasse.cut import Cut, grid
from demitasse.display import eval_plots
from demitasse.display.charts import (
    Line,
    Point,
    heat_map,
    model_line,
    quality_and_time,
    quality_by_dims,
    quality_by_layer,
)
from demitasse.display.eval_plots import plot_evaluations
from demitasse.errors import DataError
from demitasse.evaluation.evaluation import Evaluation
from demitasse.evaluation.score_types import Score, TaskFacts

CUTS = grid([0, 1, 2, 3], [8, 16, 32])


def made(
    model: str = "org/tiny",
    groups: Sequence[str] = ("sts",),
    cuts: Sequence[Cut] = CUTS,
    documents: Sequence[int] | None = None,
    half: float | None = 0.5,
    precision: str = "fp32",
) -> Evaluation:
    """An evaluation whose scores identify the cut: 3x32 is 30.32, and with documents of 2 layers 32.32."""
    means = []
    for group in groups:
        for cut in cuts:
            for layers in documents or [cut.layers]:
                value = 10 * cut.layers + cut.dims / 100 + (0 if documents is None else layers)
                ends = (None, None) if half is None else (value - half, value + half)
                means.append(Score(group, group, "spearman", cut, layers, value, *ends))
    return Evaluation(
        model=model,
        fingerprint="0" * 64,
        full=max(cuts),
        precision=precision,
        versions={},
        tasks=tuple(TaskFacts(group, group, kind_of(group), "spearman", {}, "") for group in groups),
        scores=tuple(means),
        means=tuple(means),
        shallows=(),
        seconds=1.0,
    )


def kind_of(group: str) -> str:
    return "search" if "search" in group else "pairs"


def written(evaluations: Sequence[Evaluation], folder: Path) -> list[str]:
    """All text in a picture."""
    plot_evaluations(evaluations, folder / "picture.svg")
    root = ElementTree.parse(folder / "picture.svg").getroot()
    return ["".join(element.itertext()).strip() for element in root.iter("{http://www.w3.org/2000/svg}text")]


def axes() -> Axes:
    return Figure().subplots()


def test_one_evaluation_shows_every_cut(tmp_path: Path) -> None:
    said = written([made(groups=["sts", "search"])], tmp_path)
    for number in ("0.1", "0.3", "10.2", "30.3"):
        assert said.count(number) >= 2, number  # in the table of either group
    shaded = "shaded: 95% intervals of the smallest and the largest size"
    assert {f"tiny (3x32); {shaded}", "sts: Spearman ×100", "search", "layers", "dims"} <= set(said)
    assert said.count("Spearman ×100") == 4  # two panels of lines in two rows


def test_the_intervals_of_the_smallest_and_largest_size_are_shaded() -> None:
    assert [shaded(panel) for panel in drawn([made()])] == [[], [True, False, True], [True, False, False, True]]
    two_sizes = made(cuts=grid([1, 3], [8, 16, 32]))
    assert [shaded(panel) for panel in drawn([two_sizes])] == [[], [True, False, True], [True, True]]
    assert [shaded(panel) for panel in drawn([made(cuts=grid([1, 3], [8]))])] == [[], [True]]
    assert [shaded(panel) for panel in drawn([made(half=None)])] == [[], [False] * 3, [False] * 4]
    assert [shaded(panel) for panel in drawn([made("one"), made("two"), made("three")])] == [[True] * 3] * 3
    low, high = (drawn([made(half=half)])[1].collections[0].get_paths()[0].get_extents().y1 for half in (0.5, 1.5))
    assert high - low == pytest.approx(1.0)


def shaded(panel: Axes) -> list[bool]:
    """Which of a panel's lines have a visible band."""
    return [any(path.vertices.size for path in band.get_paths()) for band in panel.collections]


def drawn(evaluations: Sequence[Evaluation]) -> list[Axes]:
    return list(eval_plots._figure(evaluations).axes)


@pytest.mark.parametrize("evaluation", [made(half=None), made(cuts=[Cut(3, 32)]), made(documents=[1, 2])])
def test_shading_is_mentioned_only_if_there_is_some(evaluation: Evaluation, tmp_path: Path) -> None:
    assert "tiny (3x32)" in written([evaluation], tmp_path)


@pytest.mark.parametrize(
    ("cuts", "panels"),
    [([Cut(3, 32)], 1), (grid([1, 3], [32]), 2), (grid([3], [8, 32]), 2), ([Cut(1, 8), Cut(3, 32)], 3)],
)
def test_there_are_only_panels_with_something_to_compare(cuts: list[Cut], panels: int) -> None:
    assert len(drawn([made(cuts=cuts)])) == panels


@pytest.mark.parametrize(
    ("group", "labels"),
    [
        ("search", ("layers of documents", "layers of queries")),
        ("sts", ("layers of the second text", "layers of the first text")),
    ],
)
def test_document_layers_are_a_table_for_each_dims(group: str, labels: tuple[str, str]) -> None:
    panels = drawn([made(groups=[group], documents=[1, 3])])
    assert [panel.get_title() for panel in panels] == [f"{group}, {dims} dims: Spearman ×100" for dims in (8, 16, 32)]
    assert (panels[0].get_xlabel(), panels[0].get_ylabel()) == labels
    numbers = {(text.get_position()[1], text.get_position()[0]): text.get_text() for text in panels[2].texts}
    assert numbers == {
        (row, column): f"{10 * row + 0.32 + (1, 3)[column]:.1f}" for row in range(4) for column in (0, 1)
    }


def test_a_single_number_of_document_layers_is_in_the_title(tmp_path: Path) -> None:
    said = written([made(groups=["search"], documents=[3])], tmp_path)
    assert "search, documents of 3 layers: Spearman ×100" in said
    assert "33.3" in said


def test_several_models_with_documents_of_other_layers() -> None:
    titles = [
        [panel.get_title() for panel in drawn([made(documents=[3]), made("other", documents=deepest)])]
        for deepest in ([1, 3], [1, 2])
    ]
    assert [row[0] for row in titles] == ["sts, documents of 3 layers, all dims", "sts, deepest documents, all dims"]


def test_a_table_of_many_layers_is_taller() -> None:
    short, tall = (eval_plots._figure([made(cuts=grid(range(depth), [8, 16]))]).get_figheight() for depth in (7, 25))
    assert tall > short + 1


def test_each_model_has_a_line_in_its_own_colour(tmp_path: Path) -> None:
    first, second = made("a/one", ["sts", "search"]), made("b/two", ["search"], grid([1, 2], [16, 64]))
    panels = drawn([first, second])
    titles = [panel.get_title() for panel in panels]
    assert titles[3:] == ["search, all dims", "search, 16 dims", "search, all layers"]
    assert titles[:3] == ["sts, all dims", "sts, 8 dims", "sts, all layers"]
    colours = [{to_hex(line.get_color()) for line in panel.lines} for panel in panels]
    assert [len(used) for used in colours] == [1, 1, 1, 2, 2, 2]
    assert all(colours[0] < used for used in colours[3:])
    two = panels[4].lines[1]  # at 16 dims, which both have
    assert (list(two.get_xdata()), list(two.get_ydata())) == ([1, 2], [10.16, 20.16])
    assert {"one", "two"} <= set(written([first, second], tmp_path))


@pytest.mark.parametrize(
    ("models", "names"),
    [
        ([("a/one", "fp32"), ("b/one", "fp32")], {"a/one", "b/one"}),
        ([("a/one", "fp32"), ("a/one", "int8")], {"one, fp32", "one, int8"}),
        ([("a/one", "fp32"), ("a/one", "fp32")], {"a/one, fp32 (1)", "a/one, fp32 (2)"}),
        ([("_one$", "fp32"), ("$two", "fp32")], {"_one$", "$two"}),
    ],
)
def test_models_have_different_names(models: list[tuple[str, str]], names: set[str], tmp_path: Path) -> None:
    said = written([made(model, precision=precision) for model, precision in models], tmp_path)
    assert names <= set(said)


def test_models_with_nothing_in_common_still_make_a_picture() -> None:
    panels = drawn([made(groups=["a"], cuts=[Cut(2, 8)]), made("b", ["b"], cuts=[Cut(4, 6)])])
    assert [panel.get_title() for panel in panels] == ["a, all dims", "b, all dims"]


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".PDF", b"%PDF"), (".svg", b"<?xml")])
def test_a_picture_is_the_same_file_every_time(suffix: str, start: bytes, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in ("one", "two")]
    for path in paths:
        plot_evaluations([made()], path)
    assert paths[0].read_bytes().startswith(start)
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("name", ["grid.jpg", "grid", ".png"])
def test_another_kind_of_file_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"not the name of a picture; use one that ends in \.png, \.svg, \.pdf"
    ) as caught:
        plot_evaluations([made()], tmp_path / name)
    assert repr(name) in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_nothing_to_draw_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no evaluations to draw; give at least one"):
        plot_evaluations([], tmp_path / "grid.png")


def test_a_picture_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "grid.svg"
    path.write_text("old")
    settings = dict(matplotlib.rcParams)
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        plot_evaluations([made()], path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["grid.svg"]
    assert path.read_text() == "old"
    assert dict(matplotlib.rcParams) == settings


def test_without_matplotlib_the_message_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from demitasse.display.eval_plots import plot_evaluations\n"
        "try: plot_evaluations([None], 'grid.png')\n"
        "except ImportError as problem: print(problem)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "drawing a picture needs matplotlib; pip install 'demitasse[plots]'\n"


def test_importing_it_imports_no_matplotlib() -> None:
    program = "import sys, demitasse.display.eval_plots; print({'matplotlib', 'torch'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


def test_dims_are_on_a_doubling_axis_with_their_numbers() -> None:
    panel = axes()
    quality_by_dims(panel, [Line("a", [Point(dims, 1.0) for dims in (256, 384, 768, 1024)], "black")])
    assert panel.get_xscale() == "log"
    assert list(panel.get_xticks()) == [256, 384, 768, 1024]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["256", "384", "", "1024"]
    assert len(panel.get_xticks(minor=True)) == 0


def test_layers_have_ticks_where_they_were_measured() -> None:
    panel = axes()
    quality_by_layer(panel, [Line("a", [Point(0, 1.0), Point(6, 2.0)], "black"), Line("b", [Point(3, 1.0)], "red")])
    assert list(panel.get_xticks()) == [0, 3, 6]
    assert panel.get_xlabel() == "layers"
    quality_by_layer(panel, [Line("a", [Point(layers, 1.0) for layers in range(25)], "black")])
    assert list(panel.get_xticks()) == list(range(0, 25, 2))


def test_points_over_time_are_named() -> None:
    panel = axes()
    quality_and_time(panel, [model_line("ours", [Point(0.5, 70.0, name="1x64"), Point(2, 78.0, name="6x64")], 1)])
    assert [text.get_text() for text in panel.texts] == ["1x64", "6x64"]
    assert panel.get_xlabel() == "milliseconds per text"
    assert panel.get_xscale() == "log"


def test_models_differ_in_colour_and_marker() -> None:
    lines = [model_line("", (), position) for position in range(42)]
    assert len({(line.colour, line.marker) for line in lines}) == 42
    assert len({line.colour for line in lines[:7]}) == 7


def test_a_heat_map_leaves_what_was_not_measured_empty() -> None:
    panel = axes()
    heat_map(panel, {(0, 8): 1.0, (3, 32): 2.0})
    assert {text.get_text(): text.get_position() for text in panel.texts} == {"1.0": (0, 0), "2.0": (1, 1)}
    table = panel.images[0].get_array()
    assert table is not None
    assert table.mask.tolist() == [[False, True], [True, False]]


def test_a_heat_map_of_one_value_can_be_read() -> None:
    panel = axes()
    heat_map(panel, {(1, 8): 5.0})
    low, high = panel.images[0].get_clim()
    assert low < 5.0 < high
