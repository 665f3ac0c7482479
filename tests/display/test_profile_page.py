"""The report page as a file; test_report_in_browser.py opens it in a browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from profiles import made_profile

import demitasse as dt
from demitasse.display import profile_page
from demitasse.display.profile_page import comparison_series
from demitasse.planning.profile import MeasuredCut, Timing
from demitasse.planning.profile_json import measured_as_plain

HOSTILE = "</script><script>alert(1)</script><!-- {{script}} \u2028 ' \" & $& \\u003c \udc80"


class Page(HTMLParser):
    """The elements of a page with their attributes, and the text of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts[-1] += data


def data(text: str) -> Any:
    return json.loads(Page(text).scripts[0])


def other(name: str = "org/other") -> MeasuredCut:
    return MeasuredCut(dt.Cut(6, 384), "fp32", "float32", 70.0, Timing(8.0, 12.0, 300.0, 0.03), 90.0, 1536, name)


def test_the_page_refers_to_nothing_outside_it() -> None:
    text = profile_page.page(made_profile())
    page = Page(text)
    for tag, attributes in page.tags:
        assert tag not in ("img", "iframe", "object", "embed", "base", "a", "audio", "video"), tag
        assert "src" not in attributes
        assert attributes.get("href", "data:,") == "data:,"
    assert set(re.findall(r"https?://[^\"'\s]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, never fetched
    assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket|\bimport\(|\beval\(|innerHTML", text)
    policy = next(
        attributes for _, attributes in page.tags if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert str(policy["content"]).startswith("default-src 'none'")


def test_the_page_is_small() -> None:
    text = profile_page.page(made_profile())
    assert len(text.encode()) - len(Page(text).scripts[0]) < 64_000


def test_every_number_is_in_the_page_to_the_last_digit() -> None:
    profile = made_profile()
    embedded = data(profile_page.page(profile))
    assert embedded["profile"]["rows"] == json.loads(
        json.dumps([measured_as_plain(measured) for measured in profile.rows])
    )
    assert profile.rows[embedded["full"]] == profile.full


def test_no_name_can_inject_script(tmp_path: Path) -> None:
    plain = Page(profile_page.page(replace(made_profile(), others=(other(),), made={"notes": ["a note"]})))
    profile = replace(
        made_profile(), model=HOSTILE, measure=HOSTILE, others=(other(HOSTILE),), made={"notes": [HOSTILE], HOSTILE: 1}
    )
    dt.report(profile, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    assert page.scripts[1] == plain.scripts[1]
    assert data(text)["profile"]["model"] == HOSTILE


def test_comparison_models_are_series() -> None:
    profile = replace(made_profile(), others=(other(),))
    same = replace(made_profile(worse=1.0), model="same machine")
    far = replace(made_profile(), model="elsewhere", made={"machine": {"processor": "B", "cores": 1}})
    unknown = replace(made_profile(), model="unknown", made={})
    series = comparison_series(profile, [same, far, unknown])
    assert [one.name for one in series] == ["org/other", "same machine", "elsewhere", "unknown"]
    assert series[0].rows == [other()]
    assert series[1].rows == same.front("quality", "latency")
    assert [one.note for one in series] == [
        *("", "", "timed on a different machine (B, 1 core)", "timed on a different machine (unknown)"),
    ]
    assert [one["name"] for one in data(profile_page.page(profile, [same]))["series"]] == ["org/other", "same machine"]


def test_profiles_with_different_measures_are_not_compared(tmp_path: Path) -> None:
    with pytest.raises(dt.DataError, match=r"nDCG@10 for b, but Spearman, built-in sample for tiny; measure both"):
        dt.report(made_profile(), tmp_path / "a.html", compare=[replace(made_profile(), model="b", measure="nDCG@10")])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["profile.json", "report", "folder.html"])
def test_a_report_must_be_an_html_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(
        dt.DataError, match=r"is not an \.html file name; write the report to a file that ends in \.html"
    ):
        dt.report(made_profile(), tmp_path / name)


def test_the_facts_of_a_measurement_are_in_words() -> None:
    machine = {"processor": "A Processor", "cores": 2, "memory_gb": 16.5, "system": "Linux 6"}
    made = {
        "machine": machine,
        "versions": {"python": "3.11"},
        "rounds": 5,
        "seconds": 12.5,
        "notes": [],
        "runs_on": "cpu",
        "exported": ["fp32", "int8"],
    }
    facts = dict(data(profile_page.page(replace(made_profile(), made=made)))["facts"])
    assert facts["machine"] == "A Processor, 2 cores, 16.5 GB of memory, system Linux 6"
    assert facts["versions"] == "python 3.11"
    assert (facts["rounds"], facts["seconds"], facts["runs on"]) == ("5", "12.5", "cpu")
    assert facts["exported"] == "fp32, int8"
    assert "notes" not in facts
    for recorded in ("a laptop", None):
        facts = dict(data(profile_page.page(replace(made_profile(), made={"machine": recorded})))["facts"])
        assert facts.get("machine") == recorded


def test_importing_it_imports_no_torch_and_no_matplotlib() -> None:
    program = (
        "import sys, demitasse.display.profile_page, demitasse.display.profile_plots;"
        "print({'matplotlib', 'torch'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
