from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demitasse import DataError
from demitasse.encoding.text_checks import checked, prompt_text


@given(st.text(alphabet=st.characters()))
def test_any_text_becomes_valid_utf8(text: str) -> None:
    (clean,) = checked([text])
    clean.encode("utf-8")
    if not any(0xD800 <= ord(letter) < 0xE000 for letter in text):
        assert clean == text


def test_two_halves_of_a_pair_become_one_character() -> None:
    assert list(checked(["\ud83d\ude00", "a\ude00b"])) == ["😀", "a�b"]


@pytest.mark.parametrize("texts", ["one string", b"bytes"])
def test_one_string_is_refused_with_the_cure(texts: object) -> None:
    with pytest.raises(DataError, match=r"wrap it: \[text\]"):
        checked(texts)  # type: ignore[arg-type]


@pytest.mark.parametrize("texts", [None, 3])
def test_anything_but_a_list_is_refused(texts: object) -> None:
    with pytest.raises(DataError, match="must be a list of strings"):
        checked(texts)  # type: ignore[arg-type]


@pytest.mark.parametrize(("bad", "named"), [(None, "None"), (3.5, "float"), (b"x", "bytes"), (["a"], "list")])
def test_a_bad_text_is_named_by_its_position(bad: object, named: str) -> None:
    with pytest.raises(DataError, match=f"text 2 is .*{named}"):
        list(checked(["a", "b", bad]))  # type: ignore[list-item]


def test_prompts_are_chosen_by_name() -> None:
    prompts = {"query": "query: ", "passage": "passage: ", "sts": "similar: "}
    assert prompt_text(prompts, "query", None) == "query: "
    assert prompt_text(prompts, "document", None) == "passage: "
    assert prompt_text(prompts, None, "sts") == "similar: "
    assert prompt_text(prompts, "", "sts") == ""
    assert prompt_text({}, "query", None) == prompt_text({}, "document", None) == prompt_text({}, None, None) == ""
    with pytest.raises(DataError, match="no prompt 'clustering'; use one of document, passage, query, sts"):
        prompt_text(prompts, "clustering", None)


class Frame:
    """Enough of a data frame: going through it gives the names of its columns."""

    columns = ("text",)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)


@pytest.mark.parametrize("table", [{"text": ["a", "b"]}, Frame()], ids=["dict", "frame"])
def test_a_table_is_refused_with_how_to_give_a_column(table: Any) -> None:
    with pytest.raises(DataError, match=r"not a (dict|Frame); give one column: texts\['text'\]"):
        list(checked(table))
