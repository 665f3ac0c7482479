from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demitasse.cut import Cut
from demitasse.errors import DataError, DemitasseError, FolderError
from demitasse.host.fields import LARGEST, Fields
from demitasse.host.json_files import DEEPEST, LARGEST_FILE, read_json, read_result

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FINITE = (int, float)
# Each way to ask for a field, and what every answer is.
ASKED: dict[str, tuple[Callable[[Fields], Any], Callable[[Any], bool]]] = {
    "name": (lambda fields: fields.name("x"), lambda value: isinstance(value, str)),
    "text": (lambda fields: fields.text("x"), lambda value: value.encode().decode() == value),
    "flag": (lambda fields: fields.flag("x"), lambda value: value is True or value is False),
    "whole": (lambda fields: fields.whole("x", 1, 9), lambda value: type(value) is int and 1 <= value <= 9),
    "number": (lambda fields: fields.number("x"), lambda value: type(value) is float and abs(value) < float("inf")),
    "choice": (lambda fields: fields.choice("x", ("a", "")), lambda value: value in ("a", "")),
    "cut": (lambda fields: fields.cut("x"), lambda value: isinstance(value, Cut)),
    "inside": (lambda fields: fields.inside("x").all(), lambda value: isinstance(value, dict)),
    "each": (lambda fields: [one.all() for one in fields.each("x")], lambda value: isinstance(value, list)),
    "texts": (lambda fields: fields.texts("x"), lambda value: all(isinstance(one, str) for one in value)),
    "wholes": (lambda fields: fields.wholes("x", 5), lambda value: all(0 <= one <= 5 for one in value)),
    "whole_of": (lambda fields: fields.whole_of("x"), lambda value: all(type(one) is int for one in value.values())),
    "number_of": (lambda fields: fields.number_of("x"), lambda value: all(type(v) is float for v in value.values())),
    "text_of": (lambda fields: fields.text_of("x"), lambda value: json.dumps(value, ensure_ascii=False).encode()),
}


@pytest.mark.parametrize("kind", ASKED)
@given(value=JSON)
def test_a_field_is_what_was_asked_for_or_one_sentence(kind: str, value: Any) -> None:
    ask, fits = ASKED[kind]
    try:
        answer = ask(Fields({"x": value}, "file.json", "try again"))
    except FolderError as problem:
        said = str(problem)
        assert said.startswith("file.json")
        assert "x" in said
        assert said.endswith("; try again")
        assert "\n" not in said
        assert len(said) < 300
        said.encode()  # it can be printed
    else:
        assert fits(answer)


def test_a_sentence_says_where_in_the_file() -> None:
    fields = Fields({"rows": [{}, {"cut": {"dims": -1}}]}, "p.json", "measure again", DataError)
    with pytest.raises(DataError) as raised:
        fields.each("rows")[1].inside("cut").whole("dims", least=1)
    assert str(raised.value) == ("p.json: rows[1].cut.dims must be a whole number of at least 1, not -1; measure again")
    with pytest.raises(DataError, match=r"^p.json has no field 'rows\[0\].cut'; measure again$"):
        fields.each("rows")[0].cut("cut")


def test_numbers_end_where_other_programs_stop_reading_them() -> None:
    assert Fields({"x": LARGEST}, "", "").whole("x") == LARGEST
    with pytest.raises(FolderError):
        Fields({"x": LARGEST + 1}, "", "").whole("x")
    for odd in (10**400, -(10**400), float("inf"), float("nan")):
        with pytest.raises(FolderError) as raised:
            Fields({"x": odd}, "", "").number("x")
        assert len(str(raised.value)) < 300
    with pytest.raises(FolderError, match=r"x must be a finite number of at least 0 and of at most 1, not 2"):
        Fields({"x": 2}, "", "").number("x", least=0, most=1)


BAD = {
    "nested": "[" * 100_000,
    "nested and closed": "[" * 500 + "]" * 500,
    "just too deep": '{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1),
    "a gigantic number": '{"schema": 1' + "0" * 400 + "}",
    "a number Python does not read": '{"schema": ' + "7" * 5000 + "}",
    "larger than any": " " * (LARGEST_FILE + 1),
    "cut short": '{"schema": 1, "ki',
    "UTF-16": '{"schema": 1}'.encode("utf-16"),
    "nothing": "",
}


@pytest.mark.parametrize("name", BAD)
def test_odd_files_are_one_sentence(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    content = BAD[name]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for read in (lambda: read_json(path), lambda: read_result(path, "profile", "measure")):
        with pytest.raises(DemitasseError) as raised:
            read()
        assert str(raised.value).startswith(f"{path} cannot be read as ")
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 300 + len(str(path))


def test_deep_enough_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text('{"a":' * DEEPEST + "1" + "}" * DEEPEST)
    assert read_json(path)["a"]["a"]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_result_has_finite_numbers_only(number: str, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text(f'{{"schema": 1, "kind": "profile", "made": {{"seconds": {number}}}}}')
    with pytest.raises(DataError, match=f"{number} is not a finite number"):
        read_result(path, "profile", "measure")
