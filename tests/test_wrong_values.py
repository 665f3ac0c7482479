"""Every public call with values of the wrong type ends in one sentence, or in what was meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zoo
from soak_results import told
from wrong_values import Call, constructors, encoding, indexing, results, work

import demitasse as dt
from demitasse.arguments import check_fields, flag, instance, number, path, several, text, whole
from demitasse.cut import cuts_of
from demitasse.errors import shown


def raw_errors(calls: list[Call]) -> tuple[int, list[str]]:
    """How many calls were made, and what each said that ended in an error which is not ours or not a sentence."""
    made, raw = 0, []
    for call in calls:
        for what, run in call.wrong():
            made += 1
            try:
                run()
            except dt.DemitasseError as problem:
                if not 10 < len(str(problem)) < 500 or "\n" in str(problem):
                    raw.append(f"{what}: {problem}")
            except Exception as problem:
                raw.append(f"{what}: {type(problem).__name__}: {problem}")
    return made, raw


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some wrong values are right names of files


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.filterwarnings("ignore")
def test_no_wrong_value_of_options_results_and_files_is_a_raw_error(tmp_path: Path) -> None:
    made, raw = raw_errors([*constructors(), *results(tmp_path)])
    assert not raw, "\n".join(raw)
    assert made > 2500


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.filterwarnings("ignore")
def test_no_wrong_value_of_an_encoder_is_a_raw_error(encoder: dt.Encoder, tmp_path: Path) -> None:
    made, raw = raw_errors(encoding("encoder", encoder, tmp_path))
    assert not raw, "\n".join(raw)
    assert made > 600


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.filterwarnings("ignore")
def test_no_wrong_value_of_an_index_is_a_raw_error(encoder: dt.Encoder, tmp_path: Path) -> None:
    made, raw = raw_errors(indexing(encoder, tmp_path))
    assert not raw, "\n".join(raw)
    assert made > 500


@pytest.mark.soak
@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.filterwarnings("ignore")
def test_no_wrong_value_is_a_raw_error_where_calls_take_long(
    encoder: dt.Encoder, tmp_path: Path, model_folder: Callable[..., Path]
) -> None:
    calls = [
        *work(encoder, tmp_path, model_folder("BERT"), zoo.sentences(300)),
        *encoding("blocks", dt.load(), tmp_path),
    ]
    made, raw = raw_errors(calls)
    told("values of a wrong type", calls=made, functions=len(calls), **{"raw errors": len(raw)})
    assert not raw, "\n".join(raw)


def test_a_cut_may_be_written_everywhere(encoder: dt.Encoder) -> None:
    small = dt.Cut(2, 8)
    assert encoder.cut("2x8").full == encoder.cut((2, 8)).full == small
    assert [*encoder.encode_cuts(["a"], "2x8")] == [*encoder.encode_cuts(["a"], ["2x8"])] == [small]
    assert encoder.model_bytes("2x8") == encoder.model_bytes(small)
    assert dt.MeasureOptions(cuts=["2x8"]).cuts == [small]
    assert dt.Starbucks(sizes=["2x8", small]).sizes == (small, small)
    assert dt.grid(2, [8]) == [small] == cuts_of("2x8")
    evaluation = dt.evaluate(encoder, cuts=["2x8"], resamples=0)
    assert evaluation.score("sample-pairs", "2x8") == evaluation.score("sample-pairs", small)


def test_objectives_losses_and_data_may_be_named(encoder: dt.Encoder, tmp_path: Path) -> None:
    assert dt.TrainOptions(loss="infonce:temperature=0.02").loss == dt.InfoNCE(temperature=0.02)
    options = dt.TrainOptions(steps=1, batch=2)
    rows = [("a cup", "a mug"), ("a bean", "a seed")]
    named = dt.train(encoder, rows, "matryoshka:dims=8/32", out=tmp_path / "a", options=options)
    given = dt.train(encoder, dt.read_pairs(rows), dt.Matryoshka((8, 32)), out=tmp_path / "b", options=options)
    np.testing.assert_array_equal(named.encode(["a cup"]), given.encode(["a cup"]))
    with pytest.raises(dt.DataError, match=r"objective must be one such as Elastic\(\) or 'elastic', not <class"):
        dt.train(encoder, rows, dt.Elastic, out=tmp_path / "c", options=options)
    with pytest.raises(dt.DataError, match=r"objective 'elastik' is not known \(did you mean 'elastic'"):
        dt.train(encoder, rows, "elastik", out=tmp_path / "c", options=options)


def test_values_are_given_the_type_they_should_have() -> None:
    assert dt.Elastic(dims=[32, np.int64(64)]) == dt.Elastic(dims=(32, 64))
    assert dt.Elastic(dims=32).dims == (32,)
    assert dt.TrainOptions(steps=np.int32(5)).steps == 5
    assert type(dt.TrainOptions(steps=np.int32(5)).steps) is int
    assert dt.TrainOptions(rate=np.float32(0.5)).rate == 0.5
    assert dt.TrainOptions(dropout=np.bool_(False)).dropout is False
    assert dt.TrainOptions(trackers="wandb").trackers == ("wandb",)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: whole("steps", "5"), "steps must be a whole number, not '5'"),
        (lambda: whole("steps", 0, 1), "steps must be a whole number of at least 1, not 0"),
        (lambda: whole("steps", True), "steps must be a whole number, not True"),
        (lambda: number("rate", "fast"), "rate must be a number, not 'fast'"),
        (lambda: number("rate", float("inf")), "rate must be a finite number, not inf"),
        (lambda: number("rate", 10**400), "rate must be a finite number, not a int"),
        (lambda: flag("order", "no"), "order must be True or False, not 'no'"),
        (lambda: text("name", b"a"), "name must be a string, not b'a'"),
        (lambda: path("out", 3), "out must be a path, not 3"),
        (lambda: path("out", ""), "out must be a path, not ''"),
        (lambda: several("dims", {"a": 1}, whole), "dims must be a list, not {'a': 1}"),
        (lambda: instance("budget", 5, dt.Budget, "write Budget()"), "budget must be a Budget, not 5; write Budget()"),
        (lambda: dt.Elastic(tune="a lot"), "tune must be a number, not 'a lot'"),
        (lambda: dt.Espresso(compress="no"), "compress must be Published(), Principal() or None, not 'no'"),
        (lambda: dt.AdaptiveLayer(inner=64), "inner must be a Matryoshka, not 64; write Matryoshka(dims=(64, 128))"),
        (lambda: dt.InfoNCE(temperature=float("inf")), "temperature must be a finite number, not inf"),
        (lambda: dt.TrainOptions(loss=dt.InfoNCE), "loss must be one such as InfoNCE() or 'infonce', not <class"),
    ],
)
def test_what_wrong_values_are_told(make: Callable[[], object], message: str) -> None:
    with pytest.raises(dt.DataError) as raised:
        make()
    assert str(raised.value).startswith(message)


def test_a_wrong_value_is_shown_if_it_is_short() -> None:
    assert shown([1, 2]) == "[1, 2]"
    assert shown("a" * 100) == "a str"
    assert shown(object()) == "a object"


def test_fields_of_other_types_stay_as_they_are() -> None:
    loss = dt.InfoNCE()
    options = dt.TrainOptions(loss=loss)
    check_fields(options)
    assert options.loss is loss
