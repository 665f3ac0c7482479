"""`demitasse demo`: a search at several cuts of the built-in model, what each costs here, and the best for a budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from demitasse.cli.outputs import check_report
from demitasse.cut import Cut
from demitasse.planning.budget import Budget, NothingFits

if TYPE_CHECKING:
    from rich.console import Console

    from demitasse.encoding.encoder import Encoder
    from demitasse.planning.measure import MeasureOptions
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
SECONDS = 12.0


def demo(
    query: Annotated[list[str] | None, typer.Argument(help="Your own questions to search for.")] = None,
    report: Annotated[Path, typer.Option(help=".html file to write.")] = Path("demitasse-report.html"),
) -> None:
    """Try the built-in model: a search at several cuts, what each costs here, and the best for a budget."""
    from rich.console import Console

    from demitasse.planning.measure import MeasureOptions

    check_report(report)
    show(query or QUERIES, Console(), report, MeasureOptions(seconds=SECONDS))


def show(queries: Sequence[str], console: Console, page: Path, options: MeasureOptions) -> None:
    """Search the corpus at every cut, measure all of them, recommend one for three budgets, and write the report."""
    import demitasse
    from demitasse.display.profile_table import show_profile

    _search(demitasse.load(), queries, console)
    console.print("measuring every cut on this machine …", style="dim", highlight=False)
    profile = demitasse.measure(options=options)
    show_profile(profile, console, CUTS)
    _recommend(profile, console)
    demitasse.report(profile, page)
    summary = f"{page.absolute()} has all {len(profile.rows)} rows, and sliders to try your own budget"
    console.print(f"\n{summary}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"for your own model and texts: {NEXT}", highlight=False, markup=False, soft_wrap=True)


def _search(encoder: Encoder, queries: Sequence[str], console: Console) -> None:
    import numpy as np

    from demitasse.host.bundled import corpus

    texts = corpus()
    console.print(f"{encoder!r}")
    console.print(f"{len(texts)} sentences, searched at {len(CUTS)} cuts of this one model, written layers x dims\n")
    documents = encoder.encode_cuts(texts, CUTS, progress=False)
    questions = encoder.encode_cuts(queries, CUTS, progress=False)
    for index, query in enumerate(queries):
        console.print(query, style="bold", highlight=False, markup=False)
        for cut in CUTS:
            best = texts[int(np.argmax(documents[cut] @ questions[cut][index]))]
            console.print(f"  {cut!s:>6}  {best}", highlight=False, markup=False, no_wrap=True, overflow="ellipsis")
        console.print()


def _recommend(profile: Profile, console: Console) -> None:
    """The best row for each budget; a machine may be too slow for one of them."""
    from demitasse.display.profile_table import options_table, print_table

    console.print("\nthe best cut for each of three budgets", style="bold", highlight=False)
    best = {}
    for words, budget in BUDGETS.items():
        try:
            best[words] = profile.best(budget)
        except NothingFits as problem:
            console.print(f"{words}: {problem}", highlight=False, markup=False)
    print_table(options_table(profile, best), console)
