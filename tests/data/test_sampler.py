from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demitasse.data.columns import text_key
from demitasse.data.pairs import Example, Pairs, read_pairs
from demitasse.data.sampler import Sampler, TextBatch
from demitasse.errors import DataError

# Few words, so that examples often share one; case and white space do not matter.
WORDS = st.sampled_from([f"{before}{letter}" for letter in "abcdefghijklmnop" for before in ("", " ")] + ["A", "B"])
TABLES = st.one_of(
    st.lists(st.tuples(WORDS, WORDS), min_size=2, max_size=30),
    st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=2, max_size=30),
    st.lists(
        st.lists(WORDS, min_size=2, max_size=4, unique_by=text_key).map(lambda texts: {"texts": texts}),
        min_size=2,
        max_size=30,
    ),
)
SEEDS = st.integers(0, 2**40)
SIZES = st.integers(2, 12)


def distinct(count: int, name: str = "x") -> list[tuple[str, str]]:
    return [(f"{name} {n}", f"{name}' {n}") for n in range(count)]


def draw(sampler: Sampler, count: int) -> list[TextBatch]:
    """Up to `count` batches; fewer if an example shares a text with every other one, which is refused."""
    batches = []
    with suppress(DataError):
        for _ in range(count):
            batches.append(sampler.next())
    return batches


def keys(data: Pairs, batch: TextBatch, index: int) -> set[str]:
    """The keys of all texts of one example in a batch."""
    return {text_key(text) for text in data.sources[batch.source][batch.rows[index][0]].texts}


@given(TABLES, SIZES, SEEDS)
def test_examples_of_a_batch_share_no_text(rows: list[Any], size: int, seed: int) -> None:
    data = read_pairs(rows)
    for batch in draw(Sampler(data, size, seed), 12):
        assert 2 <= len(batch.rows) <= size
        assert all(len(column) == len(batch.rows) for column in batch.columns)
        for one, other in combinations(range(len(batch.rows)), 2):
            assert not keys(data, batch, one) & keys(data, batch, other)


@given(TABLES, SIZES, SEEDS)
def test_a_small_batch_has_no_room_for_any_other_example(rows: list[Any], size: int, seed: int) -> None:
    data = read_pairs(rows)
    (first, *_) = draw(Sampler(data, size, seed), 1) or [None]
    if first is not None and len(first.rows) < size:
        used = set().union(*(keys(data, first, index) for index in range(len(first.rows))))
        source = data.sources[0]
        assert all(used & {text_key(text) for text in source[row].texts} for row in range(len(source)))


def simple_batches(texts: list[set[str]], size: int, seed: int, count: int) -> list[list[tuple[int, int]]]:
    """The same turns, (pass, row), in the simplest way: one list of those that wait, tried from the start."""
    number, order, full = 0, np.random.default_rng([seed, 0, 0]).permutation(len(texts)).tolist(), size
    waiting: list[tuple[int, int]] = []
    batches: list[list[tuple[int, int]]] = []
    for _ in range(count):
        taken: list[tuple[int, int]] = []
        used: set[str] = set()
        for turn in list(waiting):
            if len(taken) < full and not used & texts[turn[1]]:
                used |= texts[turn[1]]
                taken.append(turn)
                waiting.remove(turn)
        complete = len(order) == len(texts)
        while len(taken) < full:
            if not order:
                if complete:
                    full = len(taken)
                    break
                number, full, complete = number + 1, size, True
                order = np.random.default_rng([seed, 0, number]).permutation(len(texts)).tolist()
            row = order.pop(0)
            if not used & texts[row]:
                used |= texts[row]
                taken.append((number, row))
            elif sum(row == other for _, other in waiting) < 2:
                waiting.append((number, row))
        if len(taken) < 2:
            break
        batches.append(taken)
    return batches


@given(TABLES, SIZES, SEEDS)
def test_turns_equal_those_of_the_simple_algorithm(rows: list[Any], size: int, seed: int) -> None:
    data = read_pairs(rows)
    texts = [{text_key(text) for text in data.sources[0][row].texts} for row in range(len(rows))]
    turns = Sampler(data, size, seed)._turns[0]
    batches = []
    with suppress(DataError):
        for _ in range(15):
            batches.append([turn for turn, _ in turns.batch()])
    assert batches == simple_batches(texts, size, seed, 15)


@given(TABLES, SIZES, SEEDS, st.integers(0, 12))
def test_no_turn_is_used_twice_or_lost(rows: list[Any], size: int, seed: int, count: int) -> None:
    turns = Sampler(read_pairs(rows), size, seed)._turns[0]
    used: list[tuple[int, int]] = []
    with suppress(DataError):
        for _ in range(count):
            used += [turn for turn, _ in turns.batch()]
        state = turns.state()
        orders = [
            np.random.default_rng([seed, 0, number]).permutation(len(rows)) for number in range(state["pass"] + 1)
        ]
        offered = [(number, int(row)) for number, order in enumerate(orders) for row in order]
        offered = offered[: state["pass"] * len(rows) + state["position"]]
        waiting = [(number, row) for number, row in state["waiting"]]
        assert len(set(used + waiting)) == len(used + waiting)
        # A turn is lost only if two of the same row wait already, so none of the first two passes is.
        assert all(number >= 2 for number, _ in set(offered) - set(used + waiting))
        assert set(used + waiting) <= set(offered)


@given(st.integers(2, 40), SIZES, SEEDS)
def test_without_shared_texts_every_row_is_used_once_in_each_pass(count: int, size: int, seed: int) -> None:
    sampler = Sampler(read_pairs(distinct(count)), size, seed)
    uses: list[int] = []
    while len(uses) < 3 * count:
        uses += [row for row, _ in sampler.next().rows]
    # A batch that spans the end of one pass and the start of the next may put rows off: hence in total.
    times = Counter(uses)
    assert set(times) == set(range(count))
    assert max(times.values()) - min(times.values()) <= 2
    assert sampler.epoch == len(uses) / count


def test_with_moderately_repeated_texts_no_row_loses_a_turn() -> None:
    rng = np.random.default_rng(5)
    rows = [(f"anchor {a}", f"positive {p}") for a, p in zip(rng.integers(0, 400, 1000), range(1000), strict=True)]
    sampler = Sampler(read_pairs(rows), 16, seed=1)
    turns = sampler._turns[0]
    used: list[tuple[int, int]] = []
    while turns.state()["pass"] < 4:
        batch = turns.batch()
        assert len(batch) == 16
        used += [turn for turn, _ in batch]
    assert Counter(number for number, _ in set(used) if number < 3) == {0: 1000, 1: 1000, 2: 1000}
    assert len(set(used)) == len(used)


def test_a_text_in_half_of_the_rows_neither_blocks_others_nor_piles_up() -> None:
    rows = [*distinct(200), *(("the same", f"other {n}") for n in range(200))]
    sampler = Sampler(read_pairs(rows), 20, seed=3)
    uses = Counter(row for _ in range(400) for row, _ in sampler.next().rows)
    assert set(uses) == set(range(400))  # each gets its turn, one per batch
    assert sum(uses[row] for row in range(200, 400)) == 400
    assert len(sampler.state()["sources"][0]["waiting"]) <= 2 * 400


def test_a_source_with_few_distinct_texts_gives_small_batches_and_equal_turns() -> None:
    rows = [(f"anchor {n % 5}", f"positive {n}") for n in range(50)]
    sampler = Sampler(read_pairs(rows), 64, seed=0)
    batches = [sampler.next() for _ in range(60)]
    assert {len(batch.rows) for batch in batches} == {5}
    assert set(Counter(row for batch in batches for row, _ in batch.rows).values()) == {6}


@settings(max_examples=50)
@given(TABLES, TABLES, SIZES, SEEDS, st.integers(0, 10))
def test_a_restored_sampler_continues_like_the_original(
    rows: list[Any], others: list[Any], size: int, seed: int, before: int
) -> None:
    data = read_pairs(rows, others, weights=[2, 1])
    first = Sampler(data, size, seed)
    if len(draw(first, before)) < before:
        return
    saved = json.dumps(first.state())
    state = json.loads(saved)
    second = Sampler(read_pairs(rows, others, weights=[2, 1]), size, seed)
    second.restore(state)
    assert json.dumps(second.state()) == saved
    assert second.epoch == first.epoch
    assert draw(second, 8) == draw(first, 8)
    assert second.state()["sources"] == first.state()["sources"]
    assert json.dumps(state) == saved  # sampling on does not change a state that was restored from


def test_batches_are_the_same_in_another_process() -> None:
    program = (
        "from demitasse.data.pairs import read_pairs; from demitasse.data.sampler import Sampler\n"
        "rows = [{'texts': [f'{n % 7} a', f'{n} b', f'{n} c']} for n in range(40)]\n"
        "sampler = Sampler(read_pairs(rows, rows[:9]), 6, 11)\n"
        "print([(batch.source, batch.rows) for batch in (sampler.next() for _ in range(12))])"
    )
    # The hashes of strings differ between the two.
    runs = [
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": str(n)}
        )
        for n in (1, 2)
    ]
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stdout.startswith("[(")


def test_the_seed_decides_the_batches() -> None:
    data = read_pairs(distinct(100))
    first, again, other = (draw(Sampler(data, 8, seed), 20) for seed in (0, 0, 1))
    assert first == again
    assert not any(one == two for one, two in zip(first, other, strict=True))


def test_sources_are_chosen_by_weight_and_never_mixed() -> None:
    data = read_pairs(distinct(30, "x"), [(*row, f"{row[0]} not") for row in distinct(50, "y")], weights=[3, 1])
    sampler = Sampler(data, 2, 0)
    batches = [sampler.next() for _ in range(2000)]
    assert 0.72 < sum(batch.source == 0 for batch in batches) / 2000 < 0.78
    assert all(len(batch.columns) == (2, 3)[batch.source] for batch in batches)
    assert all(text.startswith("xy"[batch.source]) for batch in batches for text in batch.columns[0])


def test_columns_hold_the_texts_of_the_rows() -> None:
    triples = [{"anchor": f"a{n}", "positive": f"p{n}", "negatives": [f"n{n}", f"m{n}"]} for n in range(9)]
    batch = Sampler(read_pairs(triples), 4, 0).next()
    assert batch.scores is None
    for index, (row, which) in enumerate(batch.rows):
        assert which == (0, 1, 2, 3)
        assert tuple(column[index] for column in batch.columns) == (f"a{row}", f"p{row}", f"n{row}", f"m{row}")


def test_two_texts_of_a_group_are_used_in_any_order() -> None:
    data = read_pairs([{"texts": [f"{n} a", f"{n} b", f"{n} c"]} for n in range(20)])
    sampler = Sampler(data, 10, 0)
    chosen: Counter[tuple[int, ...]] = Counter()
    for _ in range(120):
        batch = sampler.next()
        for index, (row, which) in enumerate(batch.rows):
            chosen[which] += 1
            texts = data.sources[0][row].texts
            assert tuple(column[index] for column in batch.columns) == tuple(texts[one] for one in which)
    assert set(chosen) == {(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)}
    assert min(chosen.values()) > 150  # of 1200 in six ways


def test_groups_that_share_a_text_never_meet_even_if_it_is_not_used() -> None:
    data = read_pairs([{"texts": ["shared", f"{n} a", f"{n} b", f"{n} c"]} for n in range(5)] + [{"texts": ["x", "y"]}])
    sampler = Sampler(data, 6, 0)
    assert all(len(sampler.next().rows) == 2 for _ in range(20))


def test_scored_pairs_may_share_texts() -> None:
    rows = [("same", f"other {n}", n / 10) for n in range(10)]
    sampler = Sampler(read_pairs(rows), 4, 0)
    batches = [sampler.next() for _ in range(5)]
    assert Counter(row for batch in batches for row, _ in batch.rows) == dict.fromkeys(range(10), 2)
    for batch in batches:
        assert batch.scores == tuple(row / 10 for row, _ in batch.rows)
    assert len(Sampler(read_pairs(rows[:3]), 8, 0).next().rows) == 3


def test_each_pass_and_each_source_has_its_own_order() -> None:
    sampler = Sampler(read_pairs(distinct(12), distinct(12, "y")), 4, 7)
    orders: dict[int, list[int]] = {0: [], 1: []}
    while min(map(len, orders.values())) < 24:
        batch = sampler.next()
        orders[batch.source] += [row for row, _ in batch.rows]
    passes = [order[start : start + 12] for order in orders.values() for start in (0, 12)]
    assert all(sorted(one) == list(range(12)) for one in passes)
    assert len({tuple(one) for one in passes}) == 4
    assert sampler.epoch == sum(map(len, orders.values())) / 24


def test_a_row_that_shares_a_text_with_all_others_is_named() -> None:
    data = read_pairs([("The same", f"other {n}") for n in range(5)])
    with pytest.raises(
        DataError, match=r"source 0: row \d \('The same'\) shares a text with every other row; remove it"
    ):
        Sampler(data, 4, 0).next()


def test_impossible_options_are_refused() -> None:
    data = read_pairs(distinct(3))
    with pytest.raises(DataError, match="batch=1 was given"):
        Sampler(data, 1, 0)
    with pytest.raises(DataError, match="seed=-1 was given"):
        Sampler(data, 2, -1)
    with pytest.raises(DataError, match="source 1 has 1 row"):
        Sampler(read_pairs(distinct(3), distinct(1)), 2, 0)


def test_the_state_of_another_sampler_is_refused() -> None:
    data = read_pairs(distinct(9))
    state = Sampler(data, 2, 0).state()
    for sampler, name in (
        (Sampler(data, 3, 0), "batch"),
        (Sampler(data, 2, 1), "seed"),
        (Sampler(read_pairs(distinct(8)), 2, 0), "data"),
        (Sampler(read_pairs(distinct(9), weights=[2]), 2, 0), "data"),
    ):
        with pytest.raises(DataError, match=f"different {name}"):
            sampler.restore(state)
    for broken in ({**state, "sources": []}, {**state, "sources": [{}]}, {**state, "rows": None}):
        with pytest.raises(DataError, match="incomplete"):
            Sampler(data, 2, 0).restore(broken)


def test_restoring_reads_only_the_waiting_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    data = read_pairs([(f"anchor {n % 600}", f"positive {n}") for n in range(1000)])
    first = Sampler(data, 50, 0)
    for _ in range(90):
        first.next()
    state = first.state()
    second = Sampler(data, 50, 0)
    read: list[int] = []
    original = type(data.sources[0]).__getitem__

    def counted(self: Any, index: int) -> Example:
        read.append(index)
        return original(self, index)

    monkeypatch.setattr(type(data.sources[0]), "__getitem__", counted)
    second.restore(state)
    assert len(read) == len(state["sources"][0]["waiting"]) < 100
    assert second.next() == first.next()
