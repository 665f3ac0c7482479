"""POST /v1/embeddings gives what `encode` gives, in OpenAI's shape, at the cut that was asked for."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from servers import Answered, RunningServer

import demitasse as dt

TEXTS = ["a ristretto", "how to make better espresso at home", "", "naïve café 東京 🎉"]


def vectors(answer: Answered, dtype: str | None = None) -> np.ndarray:
    assert answer.status == 200, answer.body
    data = answer.json["data"]
    assert [entry["index"] for entry in data] == list(range(len(data)))
    assert {entry["object"] for entry in data} == {"embedding"}
    rows = [entry["embedding"] for entry in data]
    if dtype is not None:
        return np.stack([np.frombuffer(base64.b64decode(row), dtype) for row in rows])
    return np.array(rows, np.float64)


def test_the_vectors_are_those_of_encode(server: RunningServer, model: dt.Encoder) -> None:
    expected = model.encode(TEXTS)
    np.testing.assert_allclose(vectors(server.embed(input=TEXTS)), expected, atol=2e-6)
    np.testing.assert_allclose(vectors(server.embed(input=TEXTS, encoding_format="base64"), "<f4"), expected, atol=2e-6)
    np.testing.assert_allclose(vectors(server.embed(input=TEXTS[1])), expected[1:2], atol=2e-6)


def test_the_reply_has_the_shape_of_openai(server: RunningServer, model: dt.Encoder) -> None:
    answer = server.embed(input=TEXTS, model="demitasse", user="somebody", stream=False)
    tokens = int(model.count_tokens(TEXTS).sum())
    assert answer.json.keys() == {"object", "data", "model", "usage"}
    assert answer.json["object"] == "list"
    assert answer.json["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("fields", "cut"),
    [
        ({}, "6x384"),
        ({"model": "text-embedding-3-small"}, "6x384"),
        ({"dimensions": 128}, "6x128"),
        ({"layers": 3}, "3x384"),
        ({"layers": 0, "dimensions": 7}, "0x7"),
        ({"model": "demitasse:3x128"}, "3x128"),
        ({"model": "demitasse:3"}, "3x384"),
        ({"model": "text-embedding-3-small:1x32"}, "1x32"),
        ({"model": "demitasse:3x128", "dimensions": 64}, "3x64"),  # a field says more than the name
        ({"model": "demitasse:3", "layers": 2}, "2x384"),
        ({"layers": 3.0, "dimensions": None}, "3x384"),
        ({"layers": 4, "min_layers": 6}, "4x384"),
    ],
)
def test_the_cut_is_a_field_or_part_of_the_name(
    server: RunningServer, model: dt.Encoder, fields: dict[str, object], cut: str
) -> None:
    answer = server.embed(input=TEXTS, **fields)
    np.testing.assert_allclose(vectors(answer), model.cut(cut).encode(TEXTS), atol=2e-6)
    assert answer.headers["x-demitasse-cut"] == cut
    assert answer.json["model"] == f"demitasse:{cut}"


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "binary"])
def test_number_formats_are_those_of_store(server: RunningServer, model: dt.Encoder, dtype: str) -> None:
    stored = dt.store(model.cut("3x100").encode(TEXTS), dtype)
    fields = {"input": TEXTS, "model": "demitasse:3x100", "output_dtype": dtype}
    numbers = vectors(server.embed(**fields))
    raw = vectors(
        server.embed(**fields, encoding_format="base64"), {"binary": "u1", "int8": "i1"}.get(dtype, stored.dtype)
    )
    assert raw.dtype == stored.dtype
    assert numbers.shape == raw.shape == stored.shape
    if dtype == "binary":  # a number near 0 may have either sign
        assert np.unpackbits(raw ^ stored).mean() < 0.01
        assert np.array_equal(numbers, raw)
    else:
        close = {"float32": 2e-6, "float16": 1e-3, "int8": 1}[dtype]
        np.testing.assert_allclose(raw.astype(float), stored.astype(float), atol=close)
        np.testing.assert_allclose(numbers, raw.astype(float), atol=1e-12)


def test_token_ids_are_as_good_as_texts(server: RunningServer, model: dt.Encoder) -> None:
    plain = {"input": TEXTS, "add_special_tokens": False}
    ids = [entry["ids"] for entry in server.ask("POST", "/tokenize", plain).json["data"]]
    answer = server.embed(input=ids)
    np.testing.assert_allclose(vectors(answer), model.encode(TEXTS), atol=2e-6)
    assert answer.json["usage"]["prompt_tokens"] == int(model.count_tokens(TEXTS).sum())
    np.testing.assert_allclose(vectors(server.embed(input=ids[1])), model.encode(TEXTS[1:2]), atol=2e-6)


def test_long_texts_are_truncated_and_counted_or_refused(server: RunningServer, model: dt.Encoder) -> None:
    texts = ["a ristretto", "espresso " * 400, "ristretto " * 500]
    answer = server.embed(input=texts)
    np.testing.assert_allclose(vectors(answer), model.encode(texts), atol=2e-6)
    assert answer.headers["x-demitasse-truncated"] == "2"
    assert answer.json["usage"]["prompt_tokens"] == 2 * 256 + int(model.count_tokens(texts)[0])
    refused = server.embed(input=texts, truncate=False)
    assert refused.status == 400
    assert refused.error["code"] == "context_length_exceeded"
    assert refused.error["param"] == "input"
    assert "256" in refused.error["message"]
    assert server.embed(input=texts[:1], truncate=False).status == 200


def test_every_reply_says_what_it_took(server: RunningServer) -> None:
    answer = server.embed(input=TEXTS)
    times = [
        float(answer.headers[f"x-{name}-time"]) for name in ("tokenization", "queue", "inference", "compute", "total")
    ]
    assert all(time >= 0 for time in times)
    assert times[3] <= times[4]
    assert answer.headers["x-compute-tokens"] == str(answer.json["usage"]["prompt_tokens"])
    assert answer.headers["x-request-id"]
    own = server.ask("POST", "/v1/embeddings", {"input": "a"}, {"x-request-id": "mine-7"})
    assert own.headers["x-request-id"] == "mine-7"
    odd = server.ask("POST", "/v1/embeddings", {"input": "a"}, {"x-request-id": "a b"})
    assert odd.headers["x-request-id"] != "a b"


def test_half_a_surrogate_pair_is_repaired_as_in_encode(server: RunningServer, model: dt.Encoder) -> None:
    body = b'{"input": ["half \\ud83d", "whole \\ud83c\\udf89"]}'
    answer = server.ask("POST", "/v1/embeddings", body)
    np.testing.assert_allclose(vectors(answer), model.encode(["half \ud83d", "whole 🎉"]), atol=2e-6)


WRONG = [
    ({}, "input", "has no field 'input'"),
    ({"input": None}, "input", "has no field 'input'"),
    ({"input": []}, "input", "at least one"),
    ({"input": {}}, "input", "not an object"),
    ({"input": 7}, "input", "not 7"),
    ({"input": True}, "input", "not true"),
    ({"input": ["a", None]}, "input", "input[1] must be a string, not null"),
    ({"input": ["a", [1]]}, "input", "input[1] must be a string"),
    ({"input": [[2054], "a"]}, "input", "input[1] must be a list of token ids"),
    ({"input": [2054, "a"]}, "input", "input[0] must be a string"),
    ({"input": [[2054, True]]}, "input", "must be token ids"),
    ({"input": [[1.5]]}, "input", "must be token ids"),
    ({"input": [30522]}, "input", "0 to 30521, not 30522"),
    ({"input": [-1]}, "input", "not -1"),
    ({"input": [10**30]}, "input", "0 to 30521"),
    ({"input": [264, 2054]}, "input", "[unused259], which no text has"),
    ({"input": [101, 2054, 102]}, "input", "[CLS], which no text has"),
    ({"input": "a", "dimensions": 385}, "dimensions", "from 1 to 384, not 385"),
    ({"input": "a", "dimensions": 0}, "dimensions", "not 0"),
    ({"input": "a", "dimensions": "64"}, "dimensions", "not '64'"),
    ({"input": "a", "dimensions": True}, "dimensions", "not true"),
    ({"input": "a", "dimensions": 1.5}, "dimensions", "not 1.5"),
    ({"input": "a", "dimensions": 10**400}, "dimensions", "from 1 to 384"),
    ({"input": "a", "layers": 7}, "layers", "from 0 to 6"),
    ({"input": "a", "layers": -1}, "layers", "from 0 to 6"),
    ({"input": "a", "min_layers": 7}, "min_layers", "from 0 to 6"),
    ({"input": "a", "encoding_format": "hex"}, "encoding_format", "one of float, base64"),
    ({"input": "a", "input_type": "passage"}, "input_type", "one of query, document"),
    ({"input": "a", "output_dtype": "float64"}, "output_dtype", "one of float32, float16, int8, binary"),
    ({"input": "a", "truncate": "END"}, "truncate", "true or false"),
    ({"input": "a", "timeout_ms": 0}, "timeout_ms", "above 0"),
    ({"input": "a", "timeout_ms": 1e9}, "timeout_ms", "up to 30,000"),
    ({"input": "a", "model": 3}, "model", "a string"),
    ({"input": "a", "model": "demitasse:9x9"}, "model", "asks for 9x9"),
    ({"input": "a", "model": "demitasse:big"}, "model", "cannot read 'big' as a cut"),
    ({"input": "a", "model": "demitasse:3x0"}, "model", "cannot read '3x0' as a cut"),
    ({"input": "a", "dimension": 64}, "dimensions", "there is no field 'dimension'; did you mean 'dimensions'?"),
    ({"input": "a", "layer": 3}, "layers", "did you mean 'layers'?"),
    ({"input": "a", "dims": 3}, "dimensions", "did you mean 'dimensions'?"),
    ({"inputs": "a"}, "input", "did you mean 'input'?"),
    ({"input": "a", "output_dtypes": "int8"}, "output_dtype", "did you mean"),
    ([1], None, "must be a JSON object"),
    ("a", None, "must be a JSON object"),
    (None, None, "must be a JSON object"),
]


@pytest.mark.parametrize(("body", "param", "words"), WRONG, ids=lambda value: str(value)[:40])
def test_what_cannot_be_used_is_one_sentence(
    server: RunningServer, body: object, param: str | None, words: str
) -> None:
    sent = b"null" if body is None else body
    answer = server.ask("POST", "/v1/embeddings", sent)
    assert answer.status == 400, answer.body
    assert words in answer.error["message"]
    assert "\n" not in answer.error["message"]
    assert answer.error["param"] == param
    assert answer.error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "fields", [{"dimensions": 385}, {"layers": 7}, {"model": "demitasse:9x9"}, {"output_dtype": "int4"}]
)
def test_outside_what_the_model_offers_the_error_lists_it(server: RunningServer, fields: dict[str, object]) -> None:
    error = server.embed(input="a", **fields).error
    assert "demitasse offers 0 to 6 layers and 1 to 384 dimensions" in error["message"]
    assert "3x384" in error["message"]
    assert error["offers"]["layers"] == {"minimum": 0, "maximum": 6}
    assert error["offers"]["dimensions"] == {"minimum": 1, "maximum": 384}
    assert error["offers"]["output_dtype"] == ["float32", "float16", "int8", "binary"]


def test_an_unknown_model_is_not_found(server: RunningServer) -> None:
    answer = server.embed(input="a", model="gpt-7")
    assert answer.status == 404
    assert answer.error["code"] == "model_not_found"
    assert "demitasse or text-embedding-3-small" in answer.error["message"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"input": "\xff"}', "not UTF-8"),
        (b'{"input": NaN}', "NaN"),
        (b'{"input": "a", "user": Infinity}', "Infinity"),
        (b'{"input": ' + b"1" * 5000 + b"}", "too many digits"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"input":' * 100_000, "nested too deeply"),
        ('{"input": "a"}'.encode("utf-16"), "not UTF-8"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_not_json_is_one_sentence(server: RunningServer, body: bytes, words: str) -> None:
    answer = server.ask("POST", "/v1/embeddings", body)
    assert answer.status == 400
    assert words in answer.error["message"]


def test_only_json_is_read(server: RunningServer) -> None:
    for headers in ({"content-type": "text/plain"}, {"content-type": ""}, {"content-encoding": "gzip"}):
        answer = server.ask("POST", "/v1/embeddings", b'{"input": "a"}', headers)
        assert answer.status == 415, headers
        assert "JSON" in answer.error["message"]
    for kind in ("application/json; charset=utf-8", "Application/JSON"):
        assert server.ask("POST", "/v1/embeddings", b'{"input": "a"}', {"content-type": kind}).status == 200
