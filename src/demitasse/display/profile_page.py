"""A profile as one HTML page: budgets to try, pictures, every number. No network, no other file, no torch."""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from demitasse._version import __version__
from demitasse.encoding.precision import BLOCK_FORMATS
from demitasse.errors import DataError
from demitasse.host.atomic import new_file
from demitasse.host.bundled import REPORT
from demitasse.planning.deploy import exported_precisions
from demitasse.planning.measure import BUILT_IN_NAME
from demitasse.planning.profile import MeasuredCut, Profile
from demitasse.planning.profile_json import as_plain, row_as_plain

# In the order in which they are put together.
_SCRIPTS = ("choose.js", "marks.js", "charts.js", "page.js", "table.js")
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def report(profile: Profile, path: str | Path, *, compare: Sequence[Profile] = ()) -> None:
    """Write `profile` to an HTML file that holds all it needs, to be opened, sent or put on a web server.

    Budgets are tried with sliders, the recommended row moving along; `compare` adds the fronts of other profiles, which
    must be of the same measure.

    >>> import demitasse as dt
    >>> from demitasse.planning.profile import MeasuredCut, Timing
    >>> row = MeasuredCut(dt.Cut(3, 32), "int8", "binary", 71.5, Timing(0.4, 0.6, 2500.0, 0.02), 1.5, 4)
    >>> profile = dt.Profile("tiny", "5f0c", "Spearman, built-in sample", 1.2, 32, (row,))
    >>> report(profile, out.with_suffix(".html"))
    """
    path = Path(path)
    check_page(path)
    text = page(profile, compare)
    with new_file(path) as file:
        file.write(text.encode("utf-8", "replace"))  # a name may hold half a surrogate pair


def check_page(path: Path) -> None:
    """Refuse a name that is not that of a page: a report must not take the place of the profile it was made from."""
    if path.suffix.lower() not in (".html", ".htm") or path.is_dir():
        raise DataError(f"{str(path)!r} is no name of a page; write the report to a file that ends in .html")


def page(profile: Profile, compare: Sequence[Profile] = ()) -> str:
    """The page as text."""
    folder = REPORT
    read = {name: (folder / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", *_SCRIPTS)}
    parts = {
        "title": html.escape(f"{profile.model}: what each cut is worth"),
        "style": _squeezed(read["page.css"]),
        "script": "\n".join(_squeezed(read[name]) for name in _SCRIPTS),
        "data": as_script(_data(profile, compare)),
    }
    # All at once, so that nothing in a name is taken for a place.
    return _PLACE.sub(lambda place: parts[place[1]], read["page.html"])


def as_script(value: Any) -> str:
    r"""JSON that can stand in a script element: nothing in it can end the element or begin another.

    >>> print(as_script("</script><!--"))
    "\u003c/script\u003e\u003c!--"
    """
    plain = json.dumps(value, allow_nan=False, separators=(",", ":"))  # ASCII only
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _squeezed(text: str) -> str:
    """Without indents, empty lines and lines of comment; nothing in our files spans lines in which these count."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


def _data(profile: Profile, compare: Sequence[Profile]) -> dict[str, Any]:
    plain = as_plain(profile)
    del plain["others"], plain["made"]  # below, in words
    return {
        "profile": plain,
        "full": profile.rows.index(profile.full),
        "series": [
            {"name": one.name, "rows": [row_as_plain(row) for row in one.rows], "note": one.note}
            for one in shown_beside(profile, compare)
        ],
        "use": _use(profile),
        "where": profile.machine,
        "facts": _facts(profile),
    }


def _use(profile: Profile) -> dict[str, Any]:
    """How the model is named in a command and in Python, and the export format of each precision to export first."""
    formats = {precision: BLOCK_FORMATS[precision] for precision in exported_precisions(profile)}
    if profile.model == BUILT_IN_NAME:
        return {"shell": "", "python": "", "formats": formats}
    return {"shell": shlex.quote(profile.model), "python": repr(profile.model), "formats": formats}


def _facts(profile: Profile) -> list[tuple[str, str]]:
    """Everything that is known of how the profile was made, in words."""
    made = {name: value for name, value in profile.made.items() if name != "machine"}
    machine = profile.made.get("machine")
    known = machine if isinstance(machine, Mapping) else {}
    more = {name: value for name, value in known.items() if name not in ("processor", "cores")}
    facts = [
        ("model", profile.model),
        ("fingerprint", profile.fingerprint[:16]),
        ("machine", ", ".join(filter(None, [profile.machine, _said(more)]))),
        *((str(name).replace("_", " "), _said(value)) for name, value in made.items()),
        ("page made by", f"demitasse {__version__}"),
    ]
    return [(name, said) for name, said in facts if said]


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(_named(str(name), _said(inner)) for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_said, value))
    return "" if value is None else f"{value:,.10g}" if isinstance(value, float) else str(value)


def _named(name: str, said: str) -> str:
    """A value with its name; that of gigabytes comes after them."""
    return f"{said} GB of {name.removesuffix('_gb')}" if name.endswith("_gb") else f"{name.replace('_', ' ')} {said}"


@dataclass(frozen=True)
class Series:
    """Rows of one other model, from the fastest on."""

    name: str
    rows: Sequence[MeasuredCut]
    note: str = ""  # what must be known to read them


def shown_beside(profile: Profile, compare: Sequence[Profile] = ()) -> list[Series]:
    """The comparison models of a profile, then the fronts of other profiles, which must be of the same measure.

    Times of another machine are not those of this one, which is said beside them.
    """
    found = [Series(row.name or "another model", [row]) for row in profile.others]
    for other in compare:
        if other.measure != profile.measure:
            raise DataError(
                f"the quality of {other.model} is {other.measure}, and that of {profile.model} {profile.measure}; "
                "measure both in the same way to compare them"
            )
        same = other.made.get("machine") == profile.made.get("machine")
        note = "" if same else f"timed on another machine ({other.machine or 'unknown'})"
        found.append(Series(other.model, other.front("quality", "latency"), note))
    return found
