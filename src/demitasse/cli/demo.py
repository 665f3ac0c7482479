"""`demitasse demo`: a search at several cuts of the built-in model, what each costs here, and the best for a budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from demitasse.cut import Cut
from demitasse.display.profile_page import report
from demitasse.display.profile_table import print_table, rows_table, show_profile
from demitasse.encoding.encoder import Encoder
from demitasse.encoding.loading import load
from demitasse.host.bundled import corpus
from demitasse.planning.budget import Budget, NothingFits
from demitasse.planning.measure import MeasureOptions, measure
from demitasse.planning.profile import Profile

CUTS = (Cut(6, 384), Cut(6, 64), Cut(3, 128), Cut(1, 128), Cut(0, 128))
QUERIES = (
    "my bank card has been stolen",
    "the house is cold and the radiators are noisy",
    "how to make better espresso at home",
    "which animals live in clean water?",
)
BUDGETS = {
    "under 2 ms": Budget(latency_ms=2),
    "97% quality": Budget(quality=0.97),
    "64 bytes": Budget(vector_bytes=64),
}
NEXT = "demitasse plan --model MODEL --texts texts.txt --latency-ms 5"
OPTIONS = MeasureOptions(seconds=12)


def show(
    queries: Sequence[str] | None = None,
    console: Console | None = None,
    *,
    page: Path,
    options: MeasureOptions | None = None,
) -> None:
    """Search the corpus at every cut, measure all of them, recommend one for three budgets, and write the report."""
    console = console or Console()
    encoder = load()
    _search(encoder, list(queries or QUERIES), console)
    console.print("measuring every cut on this machine …", style="dim", highlight=False)
    profile = measure(options=options or OPTIONS)
    show_profile(profile, console, CUTS)
    _recommend(profile, console)
    report(profile, page)
    said = f"{page.absolute()} has all {len(profile.rows)} rows, and sliders for a budget of your own"
    console.print(f"\n{said}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"for a model and texts of your own: {NEXT}", highlight=False, markup=False, soft_wrap=True)


def _search(encoder: Encoder, queries: Sequence[str], console: Console) -> None:
    texts = corpus()
    console.print(f"{encoder!r}")
    console.print(f"{len(texts)} sentences, searched at {len(CUTS)} cuts of this one model, written layers x dims\n")
    documents = encoder.encode_cuts(texts, CUTS, progress=False)
    asked = encoder.encode_cuts(queries, CUTS, progress=False)
    for number, query in enumerate(queries):
        console.print(query, style="bold", highlight=False, markup=False)
        for cut in CUTS:
            best = texts[int(np.argmax(documents[cut] @ asked[cut][number]))]
            console.print(f"  {cut!s:>6}  {best}", highlight=False, markup=False, no_wrap=True, overflow="ellipsis")
        console.print()


def _recommend(profile: Profile, console: Console) -> None:
    """The best row for each budget; a machine may be too slow for one of them."""
    console.print("\nthe best cut for each of three budgets", style="bold", highlight=False)
    found = {}
    for words, budget in BUDGETS.items():
        try:
            found[words] = profile.best(budget)
        except NothingFits as problem:
            console.print(f"{words}: {problem}", highlight=False, markup=False)
    print_table(rows_table(profile, found), console)
