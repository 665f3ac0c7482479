from __future__ import annotations

import io
from dataclasses import replace

from profiles import made_profile
from rich.console import Console

from demitasse import Budget, Cut
from demitasse.display.profile_table import failures_table, near_limit, options_table, print_table, show_profile, where
from demitasse.planning.gate import Gate
from demitasse.planning.profile import Profile

PROFILE = made_profile()


def shown(profile: Profile, width: int = 80, cuts: tuple[Cut, ...] = ()) -> str:
    out = io.StringIO()
    show_profile(profile, Console(file=out, width=width), cuts)
    return out.getvalue()


def test_every_cut_and_precision_has_a_line_that_fits_the_terminal() -> None:
    text = shown(PROFILE)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" not in text
    assert lines[0] == "tiny  3x128, A Processor, 2 cores, 2026-01-31"
    for cut in {measured.cut for measured in PROFILE.rows}:
        assert sum(line.split()[:1] == [str(cut)] for line in lines) == 2
    fp32, int8 = text.split("\nint8\n")
    line = next(line for line in int8.splitlines() if line.split()[:1] == ["2x32"])
    assert line.split() == ["2x32", "71.5", "89.4%", "0.80", "1.00", "1,000", "5.0", "71.0", "70.5", "70.0"]
    assert "quality: Spearman, built-in sample, x 100; the full model has 80.0 ± 1.5" in fp32 + int8
    assert "times within ±2% (at worst 2%)" in " ".join(text.split())


def test_some_cuts_alone() -> None:
    text = shown(PROFILE, cuts=(Cut(3, 128),))
    assert "3x128" in text
    assert "2x128" not in text


def test_other_models_are_below_with_their_names() -> None:
    names = ("all-[bold]MiniLM", "somebody/" + 40 * "x")
    others = tuple(replace(PROFILE.full, name=name, cut=Cut(6, 384)) for name in names)
    text = shown(replace(PROFILE, others=others, quality_error=0.0))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert text.count("6x384") == 2
    assert "all-[bold]MiniLM" in text
    assert "±" not in text.partition("quality:")[2].splitlines()[0]


def test_a_profile_without_details_is_shown_too() -> None:
    bare = replace(PROFILE, made={}, rows=tuple(replace(one, quality=one.quality - 100) for one in PROFILE.rows))
    assert where(bare) == "machine unknown"
    assert where(replace(bare, made={"machine": "a laptop"})) == "a laptop"
    text = shown(replace(bare, rows=bare.select([Cut(3, 128)], ["int8"], ["int8"])))
    assert "-22.0" in text
    assert "%" not in text.partition("quality:")[0]  # there is no share of a quality below zero


def test_options_and_failures_fit_the_terminal() -> None:
    out = io.StringIO()
    console = Console(file=out, width=80)
    print_table(options_table(PROFILE, {"97% quality": PROFILE.full, "none": None}), console)
    failures = Gate(Budget(latency_ms=1, quality=1), max_drop=0.0).failures(PROFILE, PROFILE.rows)
    print_table(failures_table(failures), console)
    text = out.getvalue()
    assert "none" not in text
    assert "97% quality 3x128 fp32" in " ".join(text.split())
    assert "p95 3.000 ms" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text


def test_a_limit_within_the_noise_is_a_warning() -> None:
    full = PROFILE.full  # 3 ms, 333 texts/s, noise 0.02
    assert near_limit(Budget(latency_ms=3.1, texts_per_second=320), full) == []
    (latency,) = near_limit(Budget(latency_ms=3.05), full)
    assert "p95 latency is within its noise (±2%)" in latency
    (speed,) = near_limit(Budget(texts_per_second=330), full)
    assert "texts/s are within their noise" in speed
