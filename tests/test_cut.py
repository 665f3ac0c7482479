from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demitasse import Cut, CutError, Encoder, grid

cuts = st.builds(Cut, st.integers(0, 200), st.integers(1, 10_000))


@given(cuts)
def test_what_is_printed_can_be_parsed(cut: Cut) -> None:
    assert Cut.parse(str(cut)) == cut


@given(cuts, cuts)
def test_cuts_compare_by_layers_then_dims(one: Cut, other: Cut) -> None:
    assert (one < other) == (tuple(one) < tuple(other))
    assert (one == other) == (str(one) == str(other))


@given(cuts, cuts)
def test_a_cut_fits_what_is_at_least_as_deep_and_as_wide(cut: Cut, full: Cut) -> None:
    assert cut.fits(full) == (cut.layers <= full.layers and cut.dims <= full.dims)
    if cut.fits(full):
        assert cut.within(full) is cut
    else:
        with pytest.raises(CutError):
            cut.within(full)


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(1, 100)))
def test_a_grid_has_every_combination_once(layers: set[int], dims: set[int]) -> None:
    made = grid(layers, dims)
    assert len(made) == len(layers) * len(dims)
    assert made == sorted(set(made))


def test_a_grid_takes_iterators() -> None:
    assert grid(iter([1, 2]), iter([8, 4])) == [Cut(1, 4), Cut(1, 8), Cut(2, 4), Cut(2, 8)]


@pytest.mark.parametrize("text", [" 6x128 ", "6X128", "6 x 128", "6×128"])
def test_cuts_are_parsed_as_people_write_them(text: str) -> None:
    assert Cut.parse(text) == Cut(6, 128)


@pytest.mark.parametrize("text", ["", "6", "6,128", "x128", "6x", "-1x8", "6x12.5", "6x128x2", "٦x١", "1" * 12 + "x1"])
def test_text_that_is_not_a_cut_is_refused(text: str) -> None:
    with pytest.raises(CutError, match="write layers x dims, such as '6x128'"):
        Cut.parse(text)


@pytest.mark.parametrize(("layers", "dims"), [(-1, 8), (3, 0), (3, -8), (True, 8), (3.0, 8), ("3", 8), (None, 8)])
def test_impossible_numbers_are_refused(layers: object, dims: object) -> None:
    with pytest.raises(CutError):
        Cut(layers, dims)  # type: ignore[arg-type]


def test_errors_name_what_is_allowed() -> None:
    with pytest.raises(CutError, match=r"cut 14x128 is deeper than this encoder \(12x768\); ask for at most 12 layers"):
        Cut(14, 128).within(Cut(12, 768))
    with pytest.raises(ValueError, match="ask for at most 768 dims"):
        Cut(12, 1024).within(Cut(12, 768))


def test_whole_numbers_of_numpy_will_do() -> None:
    cut = Cut(np.int64(3), np.int32(64))  # type: ignore[arg-type]
    assert cut == Cut(3, 64)
    assert type(cut.layers) is int
    assert grid(np.arange(1, 3), [8]) == [Cut(1, 8), Cut(2, 8)]
    with pytest.raises(CutError, match="layers must be a whole number"):
        Cut(np.float64(3.0), 64)  # type: ignore[arg-type]


def test_an_encoder_is_cut_by_a_cut(encoder: Encoder) -> None:
    assert encoder.cut(Cut(2, 8)).full == Cut(2, 8)
    with pytest.raises(CutError, match="give a Cut alone, or layers and dims"):
        encoder.cut(Cut(2, 8), 4)
