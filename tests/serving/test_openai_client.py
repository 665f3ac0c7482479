"""The real `openai` client works unchanged: sync, async, base64, errors, and what it does when told to wait."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator

import numpy as np
import openai
import pytest
from servers import RunningServer, running

import demitasse as dt

TEXTS = ["a ristretto", "how to make better espresso at home"]
KEY = "sk-demitasse-0001"


@pytest.fixture(scope="module")
def locked() -> Iterator[RunningServer]:
    """A server that wants a key."""
    with running(DEMITASSE_API_KEY=KEY) as started:
        yield started


@pytest.fixture
def client(server: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_texts_become_vectors(client: openai.OpenAI, model: dt.Encoder) -> None:
    answer = client.embeddings.create(model="demitasse", input=TEXTS)  # asks for base64 and decodes it by itself
    np.testing.assert_allclose([entry.embedding for entry in answer.data], model.encode(TEXTS), atol=2e-6)
    assert answer.usage.prompt_tokens == int(model.count_tokens(TEXTS).sum())
    assert answer.model == "demitasse:6x384"
    one = client.embeddings.create(model="text-embedding-3-small", input=TEXTS[0], dimensions=64, user="somebody")
    np.testing.assert_allclose([one.data[0].embedding], model.cut(dims=64).encode(TEXTS[:1]), atol=2e-6)


def test_floats_and_base64_are_the_same_numbers(client: openai.OpenAI) -> None:
    floats = client.embeddings.create(model="demitasse:3x128", input=TEXTS, encoding_format="float")
    coded = client.embeddings.create(model="demitasse:3x128", input=TEXTS, encoding_format="base64")
    decoded = [np.frombuffer(base64.b64decode(str(entry.embedding)), "<f4") for entry in coded.data]
    np.testing.assert_allclose([entry.embedding for entry in floats.data], decoded, atol=1e-12)


def test_further_fields_go_into_extra_body(client: openai.OpenAI, model: dt.Encoder) -> None:
    raw = client.embeddings.with_raw_response.create(
        model="demitasse",
        input=TEXTS,
        encoding_format="float",  # otherwise the client reads bytes of any kind as float32
        extra_body={"layers": 3, "input_type": "query", "output_dtype": "int8", "timeout_ms": 20_000},
    )
    assert raw.headers["x-demitasse-cut"] == "3x384"
    stored = dt.store(model.cut(layers=3).encode_query(TEXTS), "int8")
    numbers = np.array([entry.embedding for entry in raw.parse().data])
    np.testing.assert_allclose(numbers, stored, atol=1)


def test_token_ids_can_be_sent(client: openai.OpenAI, model: dt.Encoder) -> None:
    ids = model.reader.read(TEXTS)
    own = [ids.ids_of(index)[1:-1] for index in range(2)]
    answer = client.embeddings.create(model="demitasse", input=own)
    np.testing.assert_allclose([entry.embedding for entry in answer.data], model.encode(TEXTS), atol=2e-6)


def test_models_are_listed(client: openai.OpenAI) -> None:
    listed = client.models.list().data
    names = [entry.id for entry in listed]
    assert names[:2] == ["demitasse", "text-embedding-3-small"]
    assert "demitasse:3x384" in names
    assert all(entry.object == "model" and entry.created > 0 for entry in listed)
    assert client.models.retrieve("demitasse:3x100").model_dump()["dimensions"] == 100
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-7")


def test_errors_are_the_errors_of_the_client(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        client.embeddings.create(model="demitasse", input="a", dimensions=1000)
    assert bad.value.param == "dimensions"
    assert bad.value.type == "invalid_request_error"
    assert "1 to 384 dimensions" in bad.value.message
    with pytest.raises(openai.NotFoundError) as missing:
        client.embeddings.create(model="gpt-7", input="a")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.APIStatusError) as large:
        client.embeddings.create(model="demitasse", input=["a"] * 3000)
    assert large.value.status_code == 413


def test_a_missed_deadline_is_not_tried_again(server: RunningServer) -> None:
    before = requests_with_status(server, 504)
    with (
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=3) as client,
        pytest.raises(openai.InternalServerError) as late,
    ):
        client.embeddings.create(
            model="demitasse", input=["a text of some length " * 30] * 500, extra_body={"timeout_ms": 1}
        )
    assert late.value.status_code == 504
    assert late.value.code == "deadline_exceeded"
    assert requests_with_status(server, 504) == before + 1


def requests_with_status(server: RunningServer, status: int) -> int:
    lines = server.ask("GET", "/metrics").body.decode().splitlines()
    start = f'demitasse_requests_total{{path="/v1/embeddings",status="{status}"}} '
    return next((int(line.removeprefix(start)) for line in lines if line.startswith(start)), 0)


def test_a_key_is_needed_where_one_is_set(locked: RunningServer) -> None:
    with openai.OpenAI(base_url=f"{locked.url}/v1", api_key=KEY, max_retries=0) as client:
        assert len(client.embeddings.create(model="demitasse", input="a").data) == 1
    for wrong in ("sk-demitasse-0002", KEY[:-1], f"{KEY}1", "nothing-like-it"):
        with (
            openai.OpenAI(base_url=f"{locked.url}/v1", api_key=wrong, max_retries=0) as client,
            pytest.raises(openai.AuthenticationError) as refused,
        ):
            client.embeddings.create(model="demitasse", input="a")
        assert refused.value.code == "invalid_api_key"
        assert wrong not in locked.said
    assert KEY not in locked.said


def test_many_at_once(server: RunningServer, model: dt.Encoder) -> None:
    cuts = [f"{layers}x{dims}" for layers in range(7) for dims in (32, 128, 384)]

    async def ask_all() -> list[openai.types.CreateEmbeddingResponse]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
            calls = [client.embeddings.create(model=f"demitasse:{cut}", input=[*TEXTS, cut]) for cut in cuts]
            return list(await asyncio.gather(*calls))

    for cut, answer in zip(cuts, asyncio.run(ask_all()), strict=True):
        expected = model.cut(cut).encode([*TEXTS, cut])
        np.testing.assert_allclose([entry.embedding for entry in answer.data], expected, atol=2e-6)
        assert answer.model == f"demitasse:{cut}"
