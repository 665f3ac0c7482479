from __future__ import annotations

import pytest

from demitasse import DataError, Encoder
from demitasse.encoding.prompts import literal_prompt, prompt_text

PROMPTS = {"query": "query: ", "passage": "passage: ", "sts": "similar: "}


def test_prompts_are_chosen_by_name() -> None:
    assert prompt_text(PROMPTS, "query", None) == "query: "
    assert prompt_text(PROMPTS, "document", None) == "passage: "
    assert prompt_text(PROMPTS, None, "sts") == "similar: "
    assert prompt_text({}, "query", "sts") == prompt_text({}, "document", None) == prompt_text({}, None, None) == ""


@pytest.mark.parametrize("name", ["clustering", "Query", ""])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(DataError, match=f"no prompt '{name}'; use one of document, passage, query, sts"):
        prompt_text(PROMPTS, name, None)


@pytest.mark.parametrize("name", ["query", "document", "passage", "sts"])
def test_the_name_of_a_prompt_is_not_its_text(name: str) -> None:
    with pytest.raises(DataError, match=f"'{name}' is the name of a prompt.*write prompt_name='{name}'"):
        literal_prompt(PROMPTS, name)


@pytest.mark.parametrize("text", ["", "query: ", "clustering", "Query"])
def test_any_other_text_is_taken_as_it_is(text: str) -> None:
    assert literal_prompt(PROMPTS, text) == text


@pytest.mark.parametrize("given", [{"prompt": 3}, {"prompt_name": 3}, {"prompt": b"query: "}])
def test_a_prompt_is_a_string(encoder: Encoder, given: dict[str, object]) -> None:
    with pytest.raises(DataError, match=r"is of type (int|bytes); give"):
        encoder.encode(["a"], **given)  # type: ignore[call-overload]


def test_a_name_and_a_text_are_one_too_many(encoder: Encoder) -> None:
    for call in (encoder.encode, encoder.encode_iter, encoder.count_tokens):
        with pytest.raises(DataError, match="prompt_name='query' and prompt='x: ' were both given"):
            call(["a"], prompt_name="query", prompt="x: ")  # type: ignore[operator]
