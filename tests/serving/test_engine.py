from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import zoo

from demitasse import Cut, CutError, DataError, Encoder, FolderError, load, read_profile
from demitasse.encoding.block_encoder import BlockEncoder
from demitasse.encoding.mixed_depths import MixedTexts
from demitasse.encoding.vectors import Vectors
from demitasse.host.bundled import corpus
from demitasse.serving.engine import (
    Answer,
    Asked,
    DeadlineMissed,
    Engine,
    EngineOptions,
    QueueFull,
    ShuttingDown,
    TextTooLong,
    TooManyTokens,
)

TEXTS = corpus()
FULL = Cut(6, 384)


@pytest.fixture(scope="module")
def blocks() -> Encoder:
    return load()


@asynccontextmanager
async def running(encoder: Encoder, **options: object) -> AsyncIterator[Engine]:
    engine = Engine(encoder, EngineOptions(**options))  # type: ignore[arg-type]
    await engine.start()
    try:
        yield engine
    finally:
        await engine.drain(seconds=10)


class Gate:
    """Holds every batch until it is opened, once the engine has started."""

    def __init__(self) -> None:
        self.batches: list[MixedTexts] = []
        self._open = threading.Event()
        self._open.set()

    def close(self) -> None:
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    def wait(self, texts: MixedTexts) -> None:
        self.batches.append(texts)
        assert self._open.wait(10)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    held = Gate()
    embed = BlockEncoder._embed_mixed

    def waiting(self: BlockEncoder, texts: MixedTexts) -> Vectors:
        held.wait(texts)
        return embed(self, texts)

    monkeypatch.setattr(BlockEncoder, "_embed_mixed", waiting)
    yield held
    held.open()


async def soon(condition: Callable[[], bool]) -> None:
    """Wait until something is true that must become true."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come true")


def assert_same(encoder: Encoder, asked: Asked, answer: Answer) -> None:
    expected = encoder.cut(asked.cut).encode(list(asked.texts), prompt_name=asked.kind)  # type: ignore[arg-type]
    assert answer.vectors.dtype == np.float32
    np.testing.assert_allclose(answer.vectors, expected, rtol=0, atol=1e-5)
    assert answer.cut == asked.cut


def random_requests(texts: list[str], full: Cut, count: int, seed: int = 0) -> list[Asked]:
    generator = random.Random(seed)
    return [
        Asked(
            generator.choices(texts, k=generator.choice([1, 1, 1, 3, 40])),
            Cut(generator.randint(0, full.layers), generator.choice([full.dims, full.dims // 4])),
            generator.choice([None, "query", "document"]),
        )
        for _ in range(count)
    ]


def test_requests_of_all_cuts_and_sizes_are_answered_as_encode_does(blocks: Encoder, encoder: Encoder) -> None:
    async def answers(encoder: Encoder, requests: list[Asked]) -> list[Answer]:
        async with running(encoder) as engine:
            return list(await asyncio.gather(*map(engine.embed, requests)))

    for each, texts in ((blocks, TEXTS), (encoder, zoo.sentences(60))):
        requests = random_requests(texts, each.full, 60)
        for asked, answer in zip(requests, asyncio.run(answers(each, requests)), strict=True):
            assert_same(each, asked, answer)
            lengths = each.count_tokens(list(asked.texts), prompt_name=asked.kind)  # type: ignore[arg-type]
            assert answer.tokens == np.minimum(lengths, each.max_seq_length).sum()
            assert answer.truncated == (lengths > each.max_seq_length).sum()
            times = answer.times
            assert times.total == pytest.approx(times.tokenize + times.queue + times.compute)
            assert min(times.tokenize, times.queue, times.compute) >= 0


def test_a_huge_request_in_pieces_keeps_its_order(blocks: Encoder) -> None:
    async def answer() -> Answer:
        async with running(blocks) as engine:
            return await engine.embed(asked)

    texts = [" ".join(TEXTS[start : start + (1, 4, 40)[start % 3]]) for start in range(120)]
    asked = Asked(texts, Cut(1, 64))
    answered = asyncio.run(answer())
    assert_same(blocks, asked, answered)
    assert answered.truncated > 10


def test_a_prompt_that_pooling_leaves_out_is_left_out(model_folder: Callable[..., Path], tmp_path: Path) -> None:
    import json
    import shutil

    folder = Path(shutil.copytree(model_folder("BERT"), tmp_path / "instructor"))
    config = folder / "1_Pooling" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "include_prompt": False}))
    encoder = load(folder, device="cpu")
    assert not encoder.pooling.include_prompt

    async def answers() -> list[Answer]:
        async with running(encoder) as engine:
            return list(await asyncio.gather(*map(engine.embed, requests)))

    requests = random_requests(zoo.sentences(20), encoder.full, 30)
    for asked, answer in zip(requests, asyncio.run(answers()), strict=True):
        assert_same(encoder, asked, answer)


def test_token_ids_are_texts_too(blocks: Encoder) -> None:
    packed = blocks.reader.read(["a ristretto", "a lungo " * 300])
    inside = [packed.ids_of(0)[1:-1], [7] * 1000]

    async def run() -> None:
        async with running(blocks) as engine:
            answer = await engine.embed(Asked(inside, FULL))
            np.testing.assert_allclose(answer.vectors[0], blocks.encode(["a ristretto"])[0], rtol=0, atol=1e-5)
            assert answer.tokens == len(packed.ids_of(0)) + blocks.max_seq_length
            assert answer.truncated == 1
            with pytest.raises(
                DataError, match="text 1 has the token id 99999, and this model's tokenizer has 0 to 30521"
            ):
                await engine.embed(Asked([[7], [8, 99999]], FULL))
            with pytest.raises(TextTooLong):
                await engine.embed(Asked(inside, FULL, truncate=False))
            assert (await engine.embed(Asked([[]], FULL))).tokens == 2

    asyncio.run(run())


def test_token_ids_get_the_prompt_of_their_kind(encoder: Encoder) -> None:
    ids = encoder.reader.read(["kan lor mist"]).ids_of(0)[1:-1]

    async def run() -> None:
        async with running(encoder) as engine:
            answer = await engine.embed(Asked([ids], encoder.full, kind="query"))
            expected = encoder.encode(["kan lor mist"], prompt_name="query")
            np.testing.assert_allclose(answer.vectors, expected, rtol=0, atol=1e-5)

    asyncio.run(run())


def test_what_cannot_be_answered_is_refused_in_one_sentence(blocks: Encoder) -> None:
    async def run() -> None:
        async with running(blocks, max_queue_tokens=1000) as engine:
            with pytest.raises(CutError, match="cut 7x384 is deeper than this encoder"):
                await engine.embed(Asked(["a"], Cut(7, 384)))
            with pytest.raises(TextTooLong, match="text 1 has 602 tokens and the model takes 256") as caught:
                await engine.embed(Asked(["a", "a lungo " * 200], FULL, truncate=False))
            assert (caught.value.index, caught.value.tokens, caught.value.limit) == (1, 602, 256)
            with pytest.raises(TooManyTokens, match="send fewer texts"):
                await engine.embed(Asked(["a ristretto"] * 400, FULL))
            for texts, message in (
                (["a", None], "text 1 is None; send strings, or lists of token ids"),
                (["a", [7]], r"text 1 is \[7\]; send strings"),
                ([[7], "a"], "text 1 is 'a'; send strings"),
                ([[7, "a"]], "text 0 has the token id 'a'"),
                ([[7, True, 2.5]], "text 0 has the token id"),
                (["a", 7], "text 1 is 7; send strings"),
            ):
                with pytest.raises(DataError, match=message):
                    await engine.embed(Asked(texts, FULL))  # type: ignore[arg-type]
            assert (await engine.embed(Asked([], FULL))).vectors.shape == (0, 384)
            assert engine.load().queue_requests == 0

    asyncio.run(run())


def test_requests_that_come_meanwhile_share_the_next_batch(blocks: Encoder, gate: Gate) -> None:
    async def run() -> None:
        async with running(blocks, threads=1) as engine:
            gate.close()
            first = asyncio.create_task(engine.embed(Asked(["a ristretto"], FULL)))
            await soon(lambda: engine.load().running == 1)
            seen = len(gate.batches)
            others = [asyncio.create_task(engine.embed(Asked(["a lungo"], Cut(depth, 64)))) for depth in range(7)]
            await soon(lambda: engine.load().queue_requests == 7)
            gate.open()
            for depth, answer in enumerate(await asyncio.gather(*others)):
                assert answer.cut == Cut(depth, 64)
            await first
            assert max(len(batch) for batch in gate.batches[seen:]) >= 6

    asyncio.run(run())


def test_a_client_that_leaves_frees_its_place_and_what_waits_is_dropped(blocks: Encoder, gate: Gate) -> None:
    async def run() -> None:
        async with running(blocks, threads=1) as engine:
            gate.close()
            running_one = asyncio.create_task(engine.embed(Asked(["a ristretto"], FULL)))
            await soon(lambda: engine.load().running == 1)
            leaving = [asyncio.create_task(engine.embed(Asked([text] * 100, FULL))) for text in TEXTS[:5]]
            staying = asyncio.create_task(engine.embed(Asked(["a lungo"], Cut(1, 64))))
            await soon(lambda: engine.load().queue_requests == 6)
            for task in [*leaving, running_one]:
                task.cancel()
            await soon(lambda: engine.load().queue_requests == 1)
            assert engine.load().queue_tokens < 10
            gate.open()
            assert_same(blocks, Asked(["a lungo"], Cut(1, 64)), await staying)
            outcomes = await asyncio.gather(*leaving, running_one, return_exceptions=True)
            assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
            assert engine.load().batch_texts <= 2

    asyncio.run(run())


def test_an_answer_that_comes_too_late_is_not_waited_for(blocks: Encoder, gate: Gate) -> None:
    async def run() -> None:
        async with running(blocks, threads=1) as engine:
            gate.close()
            with pytest.raises(DeadlineMissed, match=r"no answer within 0\.05 seconds; allow more time"):
                await engine.embed(Asked(["a ristretto"], FULL, timeout=0.05))
            gate.open()
            await soon(lambda: engine.load().running == 0)
            assert engine.load().queue_tokens == 0
            assert (await engine.embed(Asked(["a lungo"], FULL, timeout=10))).cut == FULL

    asyncio.run(run())


def test_a_deadline_that_the_queue_does_not_allow_is_refused_at_once(blocks: Encoder, gate: Gate) -> None:
    async def run() -> None:
        async with running(blocks, threads=1) as engine:
            gate.close()
            waiting = [asyncio.create_task(engine.embed(Asked(TEXTS, Cut(1, 64)))) for _ in range(4)]
            await soon(lambda: engine.load().queue_requests == 4)
            with pytest.raises(QueueFull) as caught:
                await engine.embed(Asked(["a ristretto"], FULL, timeout=0.001))
            assert caught.value.retry_after > 0
            assert engine.load().refused == 1
            gate.open()
            await asyncio.gather(*waiting)

    asyncio.run(run())


def test_what_is_wrong_with_one_request_is_not_the_others_problem(
    blocks: Encoder, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = BlockEncoder._embed_mixed
    poison = blocks.reader.read(["poison"]).ids_of(0)[1]

    def failing(self: BlockEncoder, texts: MixedTexts) -> Vectors:
        vectors = waiting(self, texts)
        if any(poison in texts.packed.ids_of(index) for index in range(len(texts))):
            raise FolderError("this text breaks the model")
        return vectors

    async def run() -> None:
        async with running(blocks, threads=1) as engine:
            gate.close()
            requests = [Asked([text], Cut(3, 64)) for text in ("a ristretto", "poison", "a lungo", "a small cup")]
            tasks = [asyncio.create_task(engine.embed(asked)) for asked in requests]
            await soon(lambda: engine.load().queue_requests == 3)
            gate.open()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(outcomes[1], FolderError)
            for asked, outcome in zip(requests, outcomes, strict=True):
                if asked.texts != ["poison"]:
                    assert isinstance(outcome, Answer)
                    assert outcome.vectors.shape == (1, 64)

    monkeypatch.setattr(BlockEncoder, "_embed_mixed", failing)
    asyncio.run(run())


def test_busy_servers_shed_layers_of_queries_and_never_of_documents(blocks: Encoder, gate: Gate) -> None:
    async def answers(shed: bool, **asked: object) -> list[Answer]:
        async with running(blocks, threads=1, shed=shed, shed_seconds=1e-6) as engine:
            gate.close()
            first = asyncio.create_task(engine.embed(Asked(["a ristretto"], FULL)))
            await soon(lambda: engine.load().running == 1)
            tasks = [asyncio.create_task(engine.embed(Asked([text], FULL, **asked))) for text in TEXTS[:20]]  # type: ignore[arg-type]
            await soon(lambda: engine.load().queue_requests == 20)
            gate.open()
            found = list(await asyncio.gather(*tasks))
            load = engine.load()
            shed_layers = [6 - answer.cut.layers for answer in found]
            assert (load.requests_shed, load.layers_shed) == (sum(map(bool, shed_layers)), sum(shed_layers))
            await first
            return found

    def depths(found: list[Answer]) -> set[int]:
        for text, answer in zip(TEXTS, found, strict=False):
            np.testing.assert_allclose(answer.vectors, blocks.cut(answer.cut).encode([text]), rtol=0, atol=1e-5)
        return {answer.cut.layers for answer in found}

    assert depths(asyncio.run(answers(True, kind="query"))) == {2}  # a third of the layers
    assert depths(asyncio.run(answers(False, kind="query", min_layers=1))) == {1}
    assert depths(asyncio.run(answers(True, kind="query", min_layers=4))) == {4}
    assert depths(asyncio.run(answers(False, kind="query"))) == {6}
    assert depths(asyncio.run(answers(True))) == {6}  # it may be a document
    assert depths(asyncio.run(answers(True, kind="document", min_layers=1))) == {6}


def test_draining_answers_what_is_there_and_takes_nothing_new(blocks: Encoder, gate: Gate) -> None:
    async def run() -> None:
        engine = Engine(blocks, EngineOptions(threads=1))
        with pytest.raises(ShuttingDown, match="starting or stopping"):
            await engine.embed(Asked(["a"], FULL))
        assert (engine.load().running, engine.load().layers) == (0, 6)
        await engine.start()
        gate.close()
        tasks = [asyncio.create_task(engine.embed(Asked(TEXTS[:40], FULL))) for _ in range(3)]
        await soon(lambda: engine.load().queue_requests == 3)
        draining = asyncio.create_task(engine.drain(seconds=20))
        await asyncio.sleep(0)
        with pytest.raises(ShuttingDown):
            await engine.embed(Asked(["a"], FULL))
        gate.open()
        assert [answer.vectors.shape for answer in await asyncio.gather(*tasks)] == [(40, 384)] * 3
        await draining

    asyncio.run(run())


def test_draining_has_an_end(blocks: Encoder, gate: Gate) -> None:
    async def run() -> None:
        engine = Engine(blocks, EngineOptions(threads=1))
        await engine.start()
        gate.close()
        tasks = [asyncio.create_task(engine.embed(Asked(TEXTS[:40], FULL))) for _ in range(3)]
        await soon(lambda: engine.load().queue_requests == 3)
        await engine.drain(seconds=0.05)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(outcome, ShuttingDown) for outcome in outcomes)
        gate.open()

    asyncio.run(run())


def test_an_engine_that_was_never_started_can_be_drained(blocks: Encoder) -> None:
    asyncio.run(Engine(blocks).drain(seconds=1))


def test_a_model_without_layers_is_served_too(blocks: Encoder) -> None:
    static = blocks.cut(0, 64)

    async def run() -> None:
        async with running(static) as engine:
            assert_same(
                static, Asked(["a ristretto"], static.full), await engine.embed(Asked(["a ristretto"], static.full))
            )

    asyncio.run(run())


def test_a_broken_model_is_found_at_the_start(blocks: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: BlockEncoder, texts: MixedTexts) -> Vectors:
        raise FolderError("a block is damaged; copy the model again")

    monkeypatch.setattr(BlockEncoder, "_embed_mixed", broken)
    with pytest.raises(FolderError, match="a block is damaged"):
        asyncio.run(Engine(blocks).start())


def test_the_event_loop_is_free_while_texts_are_read_and_computed(blocks: Encoder, gate: Gate) -> None:
    async def run() -> None:
        async with running(blocks) as engine:
            gate.close()
            task = asyncio.create_task(engine.embed(Asked(TEXTS, FULL)))
            await soon(lambda: engine.load().running > 0)  # and this coroutine runs
            gate.open()
            assert (await task).vectors.shape == (len(TEXTS), 384)

    asyncio.run(run())


def test_costs_can_be_guessed_from_a_profile(blocks: Encoder) -> None:
    from paths import ROOT

    profile = read_profile(ROOT / "research" / "results" / "profile-built-in.json")

    async def run() -> None:
        async with running(blocks, profile=profile) as engine:
            assert (await engine.embed(Asked(["a ristretto"], FULL))).cut == FULL

    asyncio.run(run())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_queue_tokens": 0}, "max_queue_tokens must be a whole number of at least 1, not 0"),
        ({"max_batch_tokens": "many"}, "max_batch_tokens must be a whole number, not 'many'"),
        ({"shed": "yes"}, "shed must be True or False"),
        ({"threads": 0}, "threads=0 cannot be used"),
        ({"floor": -1}, "floor must be a whole number of at least 0, not -1"),
        ({"shed_seconds": float("nan")}, "shed_seconds must be a finite number"),
    ],
)
def test_wrong_options_are_one_sentence(options: dict[str, object], message: str) -> None:
    with pytest.raises(Exception, match=message) as caught:
        EngineOptions(**options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
