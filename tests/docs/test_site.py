"""docs/ is a site: all pages are in its navigation, links lead somewhere, every public name is in the reference."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from paths import ROOT

import demitasse

DOCS = ROOT / "docs"
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
PAGES = sorted(DOCS.rglob("*.md"))


def listed(nav: Any) -> list[str]:
    """The pages of a navigation, from top to bottom."""
    if isinstance(nav, str):
        return [nav]
    entries = nav if isinstance(nav, list) else nav.values()
    return [page for entry in entries for page in listed(entry)]


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(listed(CONFIG["nav"])) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


def test_nothing_is_fetched_from_elsewhere_and_a_broken_link_fails() -> None:
    assert CONFIG["theme"]["font"] is False
    assert CONFIG["strict"] is True
    assert set(CONFIG["validation"]["links"].values()) == {"warn"}
    assert "extra_javascript" not in CONFIG


def anchors(page: Path) -> set[str]:
    """What can be linked to on a page: its headings, and the names that its reference shows."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    slugs = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}
    return slugs | set(re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_links_lead_to_places_in_the_site(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", page.read_text(encoding="utf-8")):
        file = (page.parent / target).resolve() if target else page
        assert file.is_file(), target
        assert file.is_relative_to(DOCS), f"{target}: write the path of what is outside docs/ in code font"
        assert not anchor or anchor in anchors(file), f"{target}#{anchor}"


def test_every_public_name_is_in_the_reference_once() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    shown = re.findall(r"^::: demitasse\.(\w+)$", text, flags=re.MULTILINE)
    assert sorted(shown) == sorted(set(demitasse.__all__) - {"__version__"})
    assert "`demitasse.__version__`" in text


def test_contributing_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| .*`(src/.*)` \|$", text, flags=re.MULTILINE)
    assert len(rows) >= 16
    assert [name for name in rows if not (ROOT / name).is_file()] == []


def test_the_site_builds_and_fetches_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    for page in tmp_path.rglob("*.html"):
        assert not re.findall(r"<(?:script|link)[^>]+(?:src|href)=.?https?:", page.read_text(encoding="utf-8")), page
