"""Clients that many programs use, unchanged, against a server: LiteLLM, LangChain and LlamaIndex."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would fetch a list of prices

import numpy as np
import pytest
from servers import RunningServer, running

import demitasse as dt

KEY = "sk-contracts-0001"
TEXTS = ["a ristretto", "how to make better espresso at home", "the bank of the river"]
CUT = "3x128"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running(DEMITASSE_API_KEY=KEY) as started:
        yield started


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    return dt.load().cut(CUT).encode(TEXTS)


def test_litellm(server: RunningServer, expected: np.ndarray) -> None:
    import litellm

    answer = litellm.embedding(
        model=f"openai/demitasse:{CUT}", input=TEXTS, api_base=f"{server.url}/v1", api_key=KEY, encoding_format="float"
    )
    np.testing.assert_allclose([entry["embedding"] for entry in answer.data], expected, atol=2e-6)
    assert answer.usage.prompt_tokens == int(dt.load().count_tokens(TEXTS).sum())
    with pytest.raises(litellm.AuthenticationError):
        litellm.embedding(model="openai/demitasse", input=TEXTS, api_base=f"{server.url}/v1", api_key="wrong-key-here")
    with pytest.raises(litellm.BadRequestError, match="offers 0 to 6 layers"):
        litellm.embedding(model="openai/demitasse:9x9", input=TEXTS, api_base=f"{server.url}/v1", api_key=KEY)


@pytest.mark.parametrize(("provider", "path"), [("cohere", "/v2/rerank"), ("jina_ai", "/v1/rerank")])
def test_litellm_rerank(server: RunningServer, provider: str, path: str) -> None:
    import litellm

    answer = litellm.rerank(
        model=f"{provider}/demitasse",
        query="a small strong coffee",
        documents=TEXTS,
        top_n=2,
        api_base=f"{server.url}{path}",
        api_key=KEY,
    )
    model = dt.load()
    cosines = model.similarity(model.encode_query(["a small strong coffee"]), model.encode(TEXTS))[0]
    best = np.argsort(-cosines)[:2]
    assert [result["index"] for result in answer.results] == best.tolist()
    np.testing.assert_allclose([result["relevance_score"] for result in answer.results], cosines[best], atol=1e-5)


def test_langchain(server: RunningServer, expected: np.ndarray) -> None:
    from langchain_openai import OpenAIEmbeddings

    embeddings = OpenAIEmbeddings(
        model=f"demitasse:{CUT}",
        base_url=f"{server.url}/v1",
        api_key=KEY,
        check_embedding_ctx_length=False,  # otherwise it sends token ids of another model's tokenizer
    )
    np.testing.assert_allclose(embeddings.embed_documents(TEXTS), expected, atol=2e-6)
    np.testing.assert_allclose(embeddings.embed_query(TEXTS[0]), expected[0], atol=2e-6)
    np.testing.assert_allclose(asyncio.run(embeddings.aembed_documents(TEXTS)), expected, atol=2e-6)


def test_langchain_with_the_tokens_of_another_model_is_told(server: RunningServer) -> None:
    """What LangChain sends by default for "the bank of the river." comes from the tokenizer of OpenAI's models."""
    answer = server.ask(
        "POST", "/v1/embeddings", {"input": [[1820, 6201, 315, 279, 15140, 13]]}, {"authorization": f"Bearer {KEY}"}
    )
    assert answer.status == 400
    assert "check_embedding_ctx_length=False" in answer.error["message"]


def test_llama_index(server: RunningServer, expected: np.ndarray) -> None:
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding

    embedding = OpenAILikeEmbedding(model_name=f"demitasse:{CUT}", api_base=f"{server.url}/v1", api_key=KEY)
    np.testing.assert_allclose(embedding.get_text_embedding_batch(TEXTS), expected, atol=2e-6)
    np.testing.assert_allclose(embedding.get_query_embedding(TEXTS[0]), expected[0], atol=2e-6)
