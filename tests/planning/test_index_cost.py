"""What an index costs, and plans that count documents."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import RunCommand
from profiles import made_profile

from demitasse import Budget, Cut, DataError, NothingFits
from demitasse.encoding.vectors import index_bytes
from demitasse.planning.index_cost import MILLION, IndexCost, as_plain, index_costs, time_index
from demitasse.search.segments import Layout

COSTS = [IndexCost(dims, MILLION * index_bytes(dims), dims / 64, dims / 1000) for dims in (8, 16, 32)]


def profile_with_costs() -> object:
    profile = made_profile()
    return replace(profile, made={**profile.made, "index": as_plain(COSTS)})


@pytest.mark.parametrize("dims", [8, 64, 100, 384])
def test_the_size_is_that_of_a_file_of_vectors(dims: int) -> None:
    assert Layout(100_000, dims).bytes == pytest.approx(100_000 * index_bytes(dims), rel=1e-4)


def test_every_width_is_timed() -> None:
    ticks = iter(range(10_000))
    costs = time_index([64, 8, 64, 130], clock=lambda: next(ticks) / 1000)
    assert [cost.dims for cost in costs] == [8, 64, 130]
    assert all(cost.scan_ms == cost.full_ms == 1.0 for cost in costs)
    assert costs[1].bytes_per_million == 88 * MILLION


def test_more_documents_and_more_recall_take_longer() -> None:
    cost = COSTS[2]
    assert cost.gigabytes(10 * MILLION) == pytest.approx(10e6 * index_bytes(32) / 1e9)
    times = [cost.search_ms(MILLION, recall) for recall in (0.9, 0.95, 0.99, 1.0)]
    assert times == sorted(times)
    assert times[1] == pytest.approx(32 / 64 + 0.032 * 2000 / 1000)
    assert times[3] == pytest.approx(0.032 * 1000)
    assert cost.search_ms(2 * MILLION) == pytest.approx(2 * cost.search_ms(MILLION))


def test_a_profile_keeps_them() -> None:
    profile = profile_with_costs()
    assert [*index_costs(profile).values()] == COSTS  # type: ignore[arg-type]
    assert index_costs(made_profile()) == {}
    broken = replace(made_profile(), made={"index": [{"dims": "8"}]})
    with pytest.raises(DataError, match="measure again"):
        index_costs(broken)


def test_a_budget_of_memory_limits_dims() -> None:
    profile = made_profile()
    among = profile.select(vectors=["int8"])
    narrowest, widest = (choose(row.cut.dims for row in among) for choose in (min, max))
    assert profile.best(Budget(documents=MILLION, memory_gb=9), among).cut.dims == widest
    enough = 10 * index_bytes(narrowest) / 1000
    best = profile.best(Budget(documents=10 * MILLION, memory_gb=enough), among)
    assert best.cut.dims == narrowest < widest
    with pytest.raises(NothingFits, match=r"an index of at most 0.0001 GB.*allow an index of at most 0\.\d+ GB"):
        profile.best(Budget(documents=10 * MILLION, memory_gb=0.0001), among)
    assert str(Budget(documents=MILLION, memory_gb=2)) == "an index of at most 2 GB, 1,000,000 documents"
    with pytest.raises(DataError, match="give documents"):
        Budget(memory_gb=2)
    with pytest.raises(DataError, match="documents must be a whole number of at least 1"):
        Budget(documents=0, memory_gb=2)


def test_plan_says_what_the_index_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: RunCommand) -> None:
    monkeypatch.chdir(tmp_path)
    profile_with_costs().save("profile.json")  # type: ignore[attr-defined]
    words = ("plan", "profile.json", "--documents", "10000000", "--memory-gb", "0.6", "--recall", "0.95")
    ran = run(*words)
    assert ran.code == 0, ran.err
    said = json.loads(run(*words, "--json").out)
    dims = Cut.parse(said["best"]["cut"]).dims
    assert said["best"]["vectors"] == "int8"
    assert said["index"]["gigabytes"] == pytest.approx(index_bytes(dims) / 100)
    assert said["index"]["gigabytes"] <= 0.6
    assert said["index"]["search_ms"] == pytest.approx(10 * (dims / 64 + dims / 1000 * 2), abs=0.01)
    assert f"an index of 10,000,000 documents takes {said['index']['gigabytes']:.2f} GB" in " ".join(ran.out.split())
    assert f"{said['index']['search_ms']:,.1f} ms for a search with a recall of 0.95" in " ".join(ran.out.split())
    made_profile().save("older.json")
    older = run("plan", "older.json", *words[2:])
    assert "does not say how long a search takes" in " ".join(older.out.split())
    assert run("plan", "profile.json", "--memory-gb", "1").code == 2
    assert run("plan", "profile.json", "--documents", "1000").code == 2
    assert run(*words[:-1], "7").code == 2
