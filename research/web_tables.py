"""Tables of docs/web.md from benchmarks/results/web*.json, for research/tables.py."""

from __future__ import annotations

from benchmark_tables import benchmark


def web_visits() -> list[str]:
    """What each depth fetches and takes in a browser."""
    result = benchmark("web")
    rows, sizes = result["visits"], {row["layers"]: row for row in result["sizes"]}
    found = {(row["layers"], row["cpu"]): row for row in rows}
    ways = list(dict.fromkeys(row["cpu"] for row in rows))
    lines = [
        "| layers | model, MB | all, MB | first vector, s: " + " / ".join(ways) + " | a query, p50 ms | a loop, ms |",
        "|---|---|---|---|---|---|",
    ]
    for layers in dict.fromkeys(row["layers"] for row in rows):
        model, runtime = sizes[layers]["model_bytes"], sizes[layers]["runtime_bytes"]
        first = " / ".join(f"{found[layers, way]['first_vector_ms'] / 1000:.1f}" for way in ways)
        query = " / ".join(f"{found[layers, way]['query_p50_ms']:.1f}" for way in ways)
        loop = " / ".join(f"{found[layers, way]['loop_ms']:.0f}" for way in ways)
        lines.append(f"| {layers} | {model / 1e6:.1f} | {(model + runtime) / 1e6:.1f} | {first} | {query} | {loop} |")
    return lines


def web_peer() -> list[str]:
    """The built-in model beside transformers.js, in the same browser."""
    lines = [
        "| | layers | model, MB | runtime, MB | both with gzip, MB | first vector, s | a text, p50 ms |",
        "|---|---|---|---|---|---|---|",
    ]
    found = benchmark("web-peer")
    for row in found["rows"]:
        name, layers = (found["peer"], 6) if row["layers"] is None else ("demitasse, built-in", row["layers"])
        lines.append(
            f"| {name} | {layers} | {row['model_bytes'] / 1e6:.1f} | {row['runtime_bytes'] / 1e6:.1f} "
            f"| {(row['model_gzip_bytes'] + row['runtime_gzip_bytes']) / 1e6:.1f} "
            f"| {row['first_vector_ms'] / 1000:.1f} | {row['encode_p50_ms']:.1f} |"
        )
    return lines


def web_equality() -> list[str]:
    """How near int8 vectors of the browser are to Python's, beside two native runs."""
    lines = [
        "| layers | least cosine | mean cosine | share of at least 0.9999 | native, fused: least / mean / share |",
        "|---|---|---|---|---|",
    ]
    for row in benchmark("web")["equality"]["vectors"]:
        here, native = row["browser"], row["native, fused"]
        numbers = [f"{one['least_cosine']:.5f}" for one in (here, native)]
        means = [f"{one['mean_cosine']:.5f}" for one in (here, native)]
        shares = [f"{100 * one['share_at_least_0.9999']:.2f}%" for one in (here, native)]
        lines.append(
            f"| {row['layers']} | {numbers[0]} | {means[0]} | {shares[0]} | {numbers[1]} / {means[1]} / {shares[1]} |"
        )
    return lines


def web_search() -> list[str]:
    """nDCG@10 of the browser and of Python, queries of each depth against an index of the full model."""
    found = benchmark("web")["search"]
    first = found["rows"][0]
    lines = [
        f"| layers of the query | {found['task']}, {first['texts']:,} texts, nDCG@10 of {first['queries']} queries: "
        "browser | Python | of the 10 best, the same |",
        "|---|---|---|---|",
    ]
    for row in found["rows"]:
        browser, python = row["browser"]["nDCG@10"], row["python"]["nDCG@10"]
        lines.append(f"| {row['layers']} | {browser:.2f} | {python:.2f} | {100 * row['shared_of_10']:.1f}% |")
    return lines


def web_operators() -> list[str]:
    """Which operators of a layer differ between a browser and native code that are given the same numbers."""
    lines = [
        "| operator, given the same numbers | numbers | not the same | by at most, in steps of a float |",
        "|---|---|---|---|",
    ]
    for row in benchmark("web-differences")["operators"]:
        share, most = row["different"] / row["numbers"], row["most_steps"]
        apart = ["none", "–"] if not row["different"] else [f"{100 * share:.1f}%", f"{most:.1f}"]
        lines.append(f"| {row['operator']} | {row['numbers']:,} | {apart[0]} | {apart[1]} |")
    return lines


def web_rounded() -> list[str]:
    """Which numbers are rounded otherwise when all before them are the same."""
    lines = [
        "| rounded to int8 after | numbers | otherwise | by steps of int8 | from the middle of a step, at most |",
        "|---|---|---|---|---|",
    ]
    for row in benchmark("web-differences")["rounded_after"]:
        apart = [str(row["most_steps"]), f"{row['most_from_a_half']:.6f} of it"] if row["otherwise"] else ["–", "–"]
        lines.append(f"| {row['operator']} | {row['numbers']:,} | {row['otherwise']:,} | {apart[0]} | {apart[1]} |")
    return lines


def web_differences() -> list[str]:
    """How near vectors are with and without a number that is rounded otherwise."""
    lines = [
        "| layers | texts with such a number | their int8 numbers that differ by then | share of at least 0.9999 "
        "| least cosine | of texts without | of all, the browser's numbers put in |",
        "|---|---|---|---|---|---|---|",
    ]
    found = benchmark("web-differences")
    for row in found["depths"]:
        least = [row[name]["least_cosine"] for name in ("native", "native_of_texts_without", "put in")]
        lines.append(
            f"| {row['layers']} | {row['texts_with_some']:,} of {found['texts']:,} "
            f"| {100 * row['carried_share_of_those_texts']:.1f}% | {100 * row['native']['share_at_least_0.9999']:.2f}% "
            f"| {least[0]:.5f} | {least[1]:.7f} | {least[2]:.7f} |"
        )
    return lines


def web_browsers() -> list[str]:
    """What was tried in each browser."""
    lines = [
        "| | first visit | second visit | searches as in Chromium | the same without a connection "
        "| vectors as Chromium's, to the bit |",
        "|---|---|---|---|---|---|",
    ]
    for row in benchmark("web-browsers")["rows"]:
        name = f"{row['browser']} {row['version']}" if "version" in row else row["browser"]
        if "problem" in row:
            lines.append(f"| {name} | {row['problem']} | | | | |")
            continue
        threads = [row[visit]["facts"].rsplit("; ", 1)[1].rstrip(".") for visit in ("first_visit", "second_visit")]
        equal, texts = (sum(one[key] for one in row["vectors"]) for key in ("equal_to_the_bit", "texts"))
        lines.append(
            f"| {name} | {row['first_visit']['fetched']}, {threads[0]} "
            f"| {row['second_visit']['fetched']}, {threads[1]} | {row['searches_as_in_chromium']} of {row['searches']} "
            f"| {row['offline_searches_as_before']} of {row['searches']} | {equal} of {texts} |"
        )
    return lines
