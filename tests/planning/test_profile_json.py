from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import made_profile, measured_cuts, profiles

from demitasse import DataError, read_profile
from demitasse.planning.profile import MeasuredCut, Profile
from demitasse.planning.profile_json import as_plain

FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)


@given(
    profiles(FINITE),
    TEXT | st.just("name-\udcff"),  # a folder whose name is not UTF-8
    st.dictionaries(TEXT, PLAIN, max_size=3),
    st.lists(measured_cuts().map(lambda measured: replace(measured, name="other </script>")), max_size=2),
)
def test_what_is_saved_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    profile: Profile,
    model: str,
    made: dict[str, Any],
    others: list[MeasuredCut],
) -> None:
    path = tmp_path_factory.getbasetemp() / "profile.json"
    whole = replace(profile, model=model, made=made, others=tuple(others))
    whole.save(path)
    assert read_profile(path) == whole


def test_numbers_are_kept_to_the_last_bit(tmp_path: Path) -> None:
    profile = made_profile()
    odd = replace(profile.rows[0], quality=0.1 + 0.2)
    profile = replace(profile, rows=(odd, *profile.rows[1:]))
    profile.save(tmp_path / "profile.json")
    assert read_profile(tmp_path / "profile.json").rows[0].quality == 0.1 + 0.2


def change(path: Path, edit: Any) -> Path:
    plain = json.loads(json.dumps(as_plain(made_profile())))
    edit(plain)
    path.write_text(json.dumps(plain))
    return path


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda plain: plain.pop("measure"), "has no field 'measure'; measure again"),
        (lambda plain: plain["rows"][3].pop("p95_ms"), r"has no field 'rows\[3\].p95_ms'"),
        (lambda plain: plain.update(rows=[]), "cannot be used .this profile has no rows"),
        (lambda plain: plain.update(rows=7), "rows must be a list, not 7"),
        (lambda plain: plain.update(batch=3.5), "batch must be a whole number of at least 1, not 3.5"),
        (lambda plain: plain.update(model=None), "has no field 'model'"),
        (lambda plain: plain["rows"][0].update(cut="large"), "cut must be a cut such as 6x128, not 'large'"),
        (lambda plain: plain["rows"][0].update(quality="high"), "quality must be a finite number, not 'high'"),
        (lambda plain: plain["rows"][0].update(quality=True), "quality must be a finite number, not true"),
        (lambda plain: plain["rows"][0].update(precision=["int8"]), "precision must be one of"),
        (lambda plain: plain["rows"][0].update(vector_bytes=1.5), "vector_bytes must be a whole number"),
        (lambda plain: plain["rows"][0].update(noise=float("nan")), "NaN is not a finite number"),
        (lambda plain: plain["rows"].append(plain["rows"][0]), "twice"),
        (lambda plain: plain["others"].append(plain["rows"][0]), r"has no field 'others\[0\].name'"),
        (lambda plain: plain.update(made=3), "made must be an object, not 3"),
        (lambda plain: plain.update(schema=2), "profile of schema 1"),
        (lambda plain: plain.update(kind="evaluation"), "profile of schema 1"),
    ],
)
def test_a_file_that_is_not_a_profile_is_refused_in_one_sentence(edit: Any, message: str, tmp_path: Path) -> None:
    path = change(tmp_path / "profile.json", edit)
    with pytest.raises(DataError, match=message) as raised:
        read_profile(path)
    assert str(raised.value).startswith(str(path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"[1, 2]", b"{", b"\xff\xfe", b"3", b"[" * 100_000])
def test_other_files_are_refused_too(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match="profile"):
        read_profile(path)
    with pytest.raises(DataError, match=r"cannot be read as a profile .*; give a file that measure wrote"):
        read_profile(tmp_path / "nowhere.json")


def test_a_profile_that_json_cannot_hold_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text("before")
    with pytest.raises(ValueError, match="JSON"):
        replace(made_profile(), quality_error=float("nan")).save(path)
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["profile.json"]
