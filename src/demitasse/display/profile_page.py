"""A profile as one HTML page: budgets to try, charts, every number. No network, no other file, no torch."""

from __future__ import annotations

import html
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demitasse._version import __version__
from demitasse.arguments import instance, several
from demitasse.arguments import path as path_of
from demitasse.encoding.precision import BLOCK_FORMATS
from demitasse.encoding.vectors import index_bytes
from demitasse.errors import DataError
from demitasse.host.atomic import new_file
from demitasse.host.bundled import REPORT, SHARED_PAGES
from demitasse.host.web_pages import as_script, filled, joined
from demitasse.planning.deploy import exported_precisions
from demitasse.planning.measure import BUILT_IN_NAME
from demitasse.planning.profile import MeasuredCut, Profile
from demitasse.planning.profile_json import as_plain, measured_as_plain

_SCRIPTS = ("choose.js", "marks.js", "charts.js", "page.js", "corpus.js", "table.js")  # in the order they are joined
_PROFILE = "measure one with demitasse.measure(…)"


@dataclass(frozen=True)
class Series:
    """Measured cuts of one other model, fastest first."""

    name: str
    rows: Sequence[MeasuredCut]
    note: str = ""  # what a reader needs to know about them


def report(profile: Profile, path: str | Path, *, compare: Sequence[Profile] = ()) -> None:
    """Write `profile` to a self-contained HTML file, to be opened, sent or put on a web server.

    Sliders set a budget, and the recommended row follows; `compare` adds the fronts of other profiles, which must have
    the same measure.

    >>> import demitasse as dt
    >>> from demitasse.planning.profile import MeasuredCut, Timing
    >>> measured = MeasuredCut(dt.Cut(3, 32), "int8", "binary", 71.5, Timing(0.4, 0.6, 2500.0, 0.02), 1.5, 4)
    >>> profile = dt.Profile("tiny", "5f0c", "Spearman, built-in sample", 1.2, 32, (measured,))
    >>> report(profile, out.with_suffix(".html"))
    """
    instance("profile", profile, Profile, _PROFILE)
    path = path_of("path", path)
    check_page(path)
    compare = several("compare", compare, lambda name, one: instance(name, one, Profile, _PROFILE))
    text = page(profile, compare)
    with new_file(path) as file:
        file.write(text.encode("utf-8", "replace"))  # a name may contain half a surrogate pair


def check_page(path: Path) -> None:
    """Refuse a name that is not an .html file name: a report must not overwrite the profile it is made from."""
    if path.suffix.lower() not in (".html", ".htm") or path.is_dir():
        raise DataError(f"{str(path)!r} is not an .html file name; write the report to a file that ends in .html")


def page(profile: Profile, compare: Sequence[Profile] = ()) -> str:
    """The page as text."""
    parts = {
        "title": html.escape(f"{profile.model}: quality and cost of each cut"),
        "style": joined([SHARED_PAGES / "base.css", REPORT / "page.css"]),
        "script": joined([SHARED_PAGES / "elements.js", *(REPORT / name for name in _SCRIPTS)]),
        "data": as_script(_data(profile, compare)),
    }
    return filled(REPORT / "page.html", parts)


def comparison_series(profile: Profile, compare: Sequence[Profile] = ()) -> list[Series]:
    """The comparison models of a profile, then the fronts of other profiles, which must have the same measure.

    A note says so if their times come from a different machine.
    """
    series = [Series(measured.name or "another model", [measured]) for measured in profile.others]
    for other in compare:
        if other.measure != profile.measure:
            raise DataError(
                f"quality is {other.measure} for {other.model}, but {profile.measure} for {profile.model}; "
                "measure both on the same data to compare them"
            )
        same_machine = other.made.get("machine") == profile.made.get("machine")
        note = "" if same_machine else f"timed on a different machine ({other.machine or 'unknown'})"
        series.append(Series(other.model, other.front("quality", "latency"), note))
    return series


def _data(profile: Profile, compare: Sequence[Profile]) -> dict[str, Any]:
    plain = as_plain(profile)
    del plain["others"], plain["made"]  # they are `series` and `facts` below
    return {
        "profile": plain,
        "full": profile.rows.index(profile.full),
        "series": [
            {"name": one.name, "rows": [measured_as_plain(measured) for measured in one.rows], "note": one.note}
            for one in comparison_series(profile, compare)
        ],
        "use": _use(profile),
        "where": profile.machine,
        "index_bytes": {row.cut.dims: index_bytes(row.cut.dims) for row in profile.rows},
        "facts": _facts(profile),
    }


def _use(profile: Profile) -> dict[str, Any]:
    """How the model is named in a command and in Python, and the export format of each precision to export first."""
    formats = {precision: BLOCK_FORMATS[precision] for precision in exported_precisions(profile)}
    if profile.model == BUILT_IN_NAME:
        return {"shell": "", "python": "", "formats": formats}
    return {"shell": shlex.quote(profile.model), "python": repr(profile.model), "formats": formats}


def _facts(profile: Profile) -> list[tuple[str, str]]:
    """Everything that is known about how the profile was measured, in words."""
    made = {name: value for name, value in profile.made.items() if name not in ("machine", "index")}
    machine = profile.made.get("machine")
    details = machine if isinstance(machine, Mapping) else {}
    more = {name: value for name, value in details.items() if name not in ("processor", "cores")}
    facts = [
        ("model", profile.model),
        ("fingerprint", profile.fingerprint[:16]),
        ("machine", ", ".join(filter(None, [profile.machine, _in_words(more)]))),
        *((str(name).replace("_", " "), _in_words(value)) for name, value in made.items()),
        ("report by", f"demitasse {__version__}"),
    ]
    return [(name, text) for name, text in facts if text]


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(_named(str(name), _in_words(inner)) for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_in_words, value))
    return "" if value is None else f"{value:,.10g}" if isinstance(value, float) else str(value)


def _named(name: str, text: str) -> str:
    """A value with its name: `memory_gb` 16 is "16 GB of memory", everything else is the name and then the value."""
    return f"{text} GB of {name.removesuffix('_gb')}" if name.endswith("_gb") else f"{name.replace('_', ' ')} {text}"
