from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zoo

from demitasse import (
    BackboneError,
    Cut,
    CutError,
    DataError,
    Encoder,
    FolderError,
    MeasureOptions,
    Profile,
    evaluate,
    grid,
    load,
    measure,
)
from demitasse.encoding.vectors import STORED, vector_bytes
from demitasse.errors import FullDisk
from demitasse.evaluation.tasks import PairTask, SearchTask
from demitasse.host.bundled import BUILT_IN as BLOCKS
from demitasse.planning import measure as measuring
from demitasse.planning.profile import Timing
from demitasse.planning.profile_json import read_profile

QUICK = MeasureOptions(rounds=2, seconds=0.01)
TEXTS = [*dict.fromkeys(zoo.sentences(130, seed=3))][:120]
TASK = PairTask("pairs", "pairs", tuple(TEXTS[:40]), tuple(TEXTS[40:80]), np.arange(40.0) % 6, binary=False)


@pytest.fixture(scope="module")
def blocks() -> Encoder:
    return load().cut(3, 64)


@pytest.fixture(scope="module")
def shallow(encoder: Encoder) -> Encoder:
    """One layer, since exporting is slow."""
    return encoder.cut(layers=1)


@pytest.fixture(scope="module")
def profile(shallow: Encoder) -> Profile:
    """A model on torch, which is measured as blocks."""
    return measure(shallow, [TASK], options=QUICK)


def test_every_cut_is_measured_at_each_precision_and_kind_of_vectors(profile: Profile, shallow: Encoder) -> None:
    cuts = grid(range(2), [32])
    assert {measured.variant for measured in profile.rows} == {
        (cut, precision, kind) for cut in cuts for precision in ("fp32", "int8") for kind in STORED
    }
    assert profile.full.cut == Cut(1, 32)
    assert (profile.full.precision, profile.full.vectors) == ("fp32", "float32")
    assert profile.fingerprint == shallow.fingerprint
    assert profile.model == shallow.name
    assert profile.measure == "Spearman on pairs"
    assert profile.batch == 32
    assert profile.others == ()


def test_quality_and_its_error_are_those_of_evaluate(profile: Profile, shallow: Encoder) -> None:
    evaluation = evaluate(shallow, [TASK])
    for measured in profile.select(precisions=["fp32"], vectors=["float32"]):
        assert measured.quality == pytest.approx(evaluation.score("pairs", measured.cut), abs=0.5)
    low, high = evaluation.interval("pairs", shallow.full)
    assert profile.quality_error == pytest.approx((high - low) / 2, abs=0.5)


def test_bytes_are_those_of_the_blocks_and_of_the_vectors(profile: Profile) -> None:
    sizes = {(one.precision, one.cut): one.model_mb for one in profile.rows}
    assert sizes["int8", Cut(1, 32)] < sizes["fp32", Cut(1, 32)]
    assert sizes["fp32", Cut(0, 32)] < sizes["fp32", Cut(1, 32)]
    assert all(one.vector_bytes == vector_bytes(one.cut.dims, one.vectors) for one in profile.rows)


def test_all_dims_of_a_depth_share_the_time_of_the_widest(blocks: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    times = {0: Timing(0.1, 0.2, 9000.0, 0.01), 3: Timing(1.0, 2.0, 900.0, 0.02), 1: Timing(0.5, 0.6, 5000.0, 0.03)}
    widths = {}

    def fake_times(timed: dict, work: object, **_: object) -> tuple[dict, int]:
        for key, make in timed.items():
            widths[key] = make()(["kan lor"], None).shape[1]
        return {key: times[key[2]] for key in timed}, 2

    monkeypatch.setattr(measuring, "time_in_turns", fake_times)
    options = MeasureOptions(cuts=grid([0, 3], [8, 32, 64]), rounds=2)
    profile = measure(blocks, options=options, compare=[load().cut(1, 32)])
    assert all(measured.timing == times[measured.cut.layers] for measured in profile.rows)
    assert [other.timing for other in profile.others] == [times[1]]
    assert widths == {(None, "int8", 0): 64, (None, "int8", 3): 64, ("all-MiniLM-L6-v2", "int8", 1): 32}


def test_times_are_measured(profile: Profile) -> None:
    assert all(0 < one.timing.p50_ms <= one.timing.p95_ms for one in profile.rows)
    assert all(one.timing.texts_per_second > 0 for one in profile.rows)


def test_blocks_are_measured_as_they_are(blocks: Encoder) -> None:
    profile = measure(blocks, options=MeasureOptions(cuts=[Cut(1, 32)], vectors=["binary"], rounds=2, seconds=0.01))
    assert {one.precision for one in profile.rows} == {"int8"}
    assert {(one.cut, one.vectors) for one in profile.rows} == {
        (cut, kind) for cut in (Cut(1, 32), Cut(3, 64)) for kind in ("float32", "binary")
    }
    with pytest.raises(DataError, match="cannot be measured in fp32; choose int8"):
        measure(blocks, options=MeasureOptions(precisions=["fp32"]))


def test_half_precision_is_measured_as_it_is(model_folder: Callable[..., Path]) -> None:
    half = load(model_folder("BERT"), device="cpu", dtype="bfloat16")
    profile = measure(half, [TASK], options=MeasureOptions(cuts=[Cut(1, 32)], rounds=2, seconds=0.01))
    assert {one.precision for one in profile.rows} == {"bf16"}
    assert profile.made["runs_on"] == "cpu bfloat16"
    assert profile.made["exported"] == []


def test_without_the_export_extra_the_model_is_measured_on_torch(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.warns(UserWarning, match=r"fp32 was measured on torch: .* pip install 'demitasse\[export\]'"):
        profile = measure(encoder, [TASK], options=QUICK)
    assert {one.precision for one in profile.rows} == {"fp32"}
    assert len(profile.made["notes"]) == 1
    assert profile.made["exported"] == []
    with pytest.raises(DataError, match=r"cannot be measured in int8 \(fp32 was .* needs onnxscript"):
        measure(encoder, [TASK], options=MeasureOptions(precisions=["int8"]))


@pytest.mark.parametrize("kind", [FolderError, BackboneError])
def test_what_blocks_cannot_hold_is_measured_on_torch_with_a_warning(
    kind: type[Exception], encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(encoder: object, out: Path, traced: Path | None, *, format: str, progress: bool | None) -> None:
        assert traced is None
        raise kind(f"{format} cannot hold it")

    monkeypatch.setattr("demitasse.exporting.export.export_traced", refused)
    with pytest.warns(UserWarning, match="cannot hold it") as warned:
        profile = measure(encoder, [TASK], options=QUICK)
    assert {one.precision for one in profile.rows} == {"fp32"}
    notes = [
        "fp32 was measured on torch, not as blocks: blocks cannot hold it",
        "int8 was not measured: blocks-int8 cannot hold it",
    ]
    assert [str(one.message) for one in warned] == notes == profile.made["notes"]
    assert profile.made["exported"] == []
    with pytest.raises(
        DataError, match=r"cannot be measured in int8 \(int8 was not measured: .*\); leave precisions out"
    ):
        measure(encoder, [TASK], options=MeasureOptions(precisions=["int8"]))
    with pytest.raises(DataError, match="cannot be measured in fp16; choose fp32 or int8"):
        measure(encoder, [TASK], options=MeasureOptions(precisions=["fp16"]))


def test_a_full_disk_ends_it_instead_of_changing_what_is_measured(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise FullDisk("cannot write fp32 (No space left on device); make room on that disk")

    monkeypatch.setattr("demitasse.exporting.export.export_traced", full)
    with pytest.raises(FullDisk, match="TMPDIR"):
        measure(encoder, [TASK], options=QUICK)


def test_other_models_are_measured_beside_it(blocks: Encoder, model_folder: Callable[..., Path]) -> None:
    folder = model_folder("DistilBERT")
    profile = measure(blocks, [TASK], options=QUICK, compare=[folder, load().cut(1, 32)])
    first, second = profile.others
    assert (first.name, str(first)) == ("tiny", "tiny 3x32 fp32, float32 vectors")
    assert second.name == "all-MiniLM-L6-v2"
    assert (second.cut, second.precision, second.vector_bytes) == (Cut(1, 32), "int8", 128)
    other = load(folder, device="cpu")
    assert first.quality == pytest.approx(
        evaluate(other, [TASK], cuts=[other.full]).score("pairs", other.full), abs=0.01
    )
    assert first.model_mb == other.model_bytes(other.full) / 1e6


def test_agreement_needs_no_labels(blocks: Encoder, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    profile = measure(blocks, texts=tmp_path / "texts.txt", options=QUICK)
    assert profile.measure == "agreement with the full model on 120 texts of texts.txt"
    assert profile.full.quality == 100
    assert profile.quality_error == 0
    by_cut = {one.cut: one.quality for one in profile.select(vectors=["float32"])}
    assert by_cut[Cut(3, 64)] > by_cut[Cut(2, 64)] > by_cut[Cut(0, 32)] > 10
    with pytest.raises(DataError, match="cannot be compared on texts without labels"):
        measure(blocks, texts=TEXTS, compare=[load()])


def test_a_profile_records_where_and_when_it_was_measured(profile: Profile, tmp_path: Path) -> None:
    made = profile.made
    assert made["machine"]["cores"] >= 1
    assert made["machine"]["processor"]
    assert {"demitasse", "numpy", "onnxruntime", "python"} <= made["versions"].keys()
    assert made["exported"] == ["fp32", "int8"]
    assert made["rounds"] == 2
    assert made["single_texts"] == 80
    assert made["date"].startswith("20")
    json.dumps(made)
    profile.save(tmp_path / "profile.json")
    assert read_profile(tmp_path / "profile.json") == profile


def test_timed_encoders_have_not_seen_any_text(blocks: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The word cache is empty at the start of each turn, and that of the encoder itself is untouched."""
    blocks.encode(TEXTS)
    remembered = len(blocks.reader.tokenizer._memory.counts)  # type: ignore[attr-defined]
    made = []
    real = type(blocks.reader).fresh

    def fresh(self: object) -> object:
        made.append(real(self))  # type: ignore[arg-type]
        assert len(made[-1].tokenizer._memory.counts) == 0  # type: ignore[attr-defined]
        return made[-1]

    monkeypatch.setattr(type(blocks.reader), "fresh", fresh)
    search = SearchTask("s", "s", tuple(TEXTS), ("kan",), ({0: 1.0},), (None,))
    measure(blocks, [search], options=MeasureOptions(cuts=[blocks.full], rounds=2, seconds=0.01))
    assert len(made) == 3  # to warm up, and for each round
    assert all(len(reader.tokenizer._memory.counts) > 0 for reader in made)  # type: ignore[attr-defined]
    assert remembered > 0


def test_the_default_is_the_built_in_model_without_torch() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import demitasse as dt\n"
        "profile = dt.measure(options=dt.MeasureOptions(cuts=[dt.Cut(0, 32)], rounds=2, seconds=0.01))\n"
        "print(profile.model, profile.full.cut, profile.measure, sep='; ')"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "built-in; 6x384; mean of Spearman on sample-pairs and nDCG@10 on sample-search\n"


def test_the_progress_bars_count_all_the_work(blocks: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import contextmanager

    totals: dict[str, list[int]] = {}

    @contextmanager  # type: ignore[arg-type]
    def bar(label: str, total: int, *, show: bool | None = None):  # type: ignore[no-untyped-def]
        totals[label] = [total, 0]

        def advance(steps: int, note: str = "") -> None:
            totals[label][1] += steps

        yield advance

    monkeypatch.setattr(measuring, "progress_bar", bar)
    measure(blocks, [TASK], options=MeasureOptions(rounds=2, seconds=0.01), compare=[load().cut(0, 32)])
    assert totals == {"measuring quality": [160, 160], "timing": [10, 10]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 1}, "rounds must be a whole number of at least 2, not 1"),
        ({"batch": 0}, "batch must be a whole number of at least 1, not 0"),
        ({"batch": True}, "batch must be a whole number, not True"),
        ({"batch": 10**9}, "batch must be at most 65,536 texts"),
        ({"seconds": 0}, "seconds must be above 0, not 0"),
        ({"seconds": "60"}, "seconds must be a number, not '60'"),
        ({"vectors": ["int4"]}, "vectors must be one of float32, float16, int8, binary, not 'int4'"),
        ({"vectors": 8}, "vectors must be one of float32, float16, int8, binary, not 8"),
        ({"precisions": []}, "precisions is empty; name at least one"),
        ({"precisions": ["int4"]}, "precisions must be one of fp32"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        MeasureOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: measure("MiniLM"), DataError, "encoder must be an Encoder, not 'MiniLM'"),
        (lambda: measure(load(), compare="MiniLM"), DataError, "compare must be a list, not one str"),
        (lambda: measure(load(), compare=[BLOCKS, BLOCKS]), DataError, "named twice in compare; name each model once"),
        (lambda: measure(load(), options=MeasureOptions(cuts=[Cut(9, 8)])), CutError, "deeper than this encoder"),
        (lambda: measure(load(), options=MeasureOptions(cuts=[])), CutError, "no cuts were given; name at least one"),
        (lambda: measure(load(), options=MeasureOptions(cuts=["128"])), CutError, "such as '6x128'"),
        (lambda: measure(load(), ["nowhere"]), DataError, "there is no task 'nowhere'"),
    ],
)
def test_bad_calls_are_named(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
