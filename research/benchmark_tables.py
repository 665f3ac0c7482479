"""Tables of benchmarks/results/*.json, for research/tables.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from search_tables import search_of

ROOT = Path(__file__).parents[1]


def benchmark(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())
    return loaded


def encode_cpu() -> list[str]:
    """Every method at every number of layers, and its ratio to sentence-transformers at the same number."""
    rows = benchmark("encode-cpu")["rows"]
    peer = {row["layers"]: row for row in rows if row["method"] == "sentence-transformers"}
    lines = [
        "| layers | | sentences/s | passages/s | one sentence, p50 / p95 ms | first vector, s | peak MB | STS |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: -row["layers"]):
        base = peer[row["layers"]]

        def cell(key: str, row: dict[str, Any] = row, base: dict[str, Any] = base) -> str:
            times = row[key] / base[key]
            value = f"{row[key]:,.0f}" if row[key] >= 10 else f"{row[key]:.1f}"
            return value if row is base else f"{value} ({times:.1f}x)"

        faster = "" if row is base else f" ({base['p50_ms'] / row['p50_ms']:.1f}x)"
        name = f"**{row['method']}**" if row["method"] == "demitasse int8" else row["method"]
        lines.append(
            f"| {row['layers']} | {name} | {cell('sentences_a_second')} | {cell('passages_a_second')} "
            f"| {row['p50_ms']:.2f} / {row['p95_ms']:.2f}{faster} | {row['first_vector_seconds']:.2f} "
            f"| {row['peak_megabytes']:,.0f} | {row['sts']:.1f} |"
        )
    return lines


def compare_cpu() -> list[str]:
    """The rows of `encode_cpu` that a reader chooses between."""
    wanted = {"demitasse int8": (6, 3, 1, 0), "sentence-transformers": (6, 3, 1), "fastembed": (6,)}
    wanted["model2vec, distilled"] = (0,)
    model = {"demitasse int8": "built-in", "model2vec, distilled": "model2vec"}  # in searches.json; the rest is RAW
    lines = [
        "| | layers | STS | hotpotqa, scifact | sentences/s | one sentence, p50 ms | start, s | peak MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = {(row["method"], row["layers"]): row for row in benchmark("encode-cpu")["rows"]}
    for method, depths in wanted.items():
        for layers in depths:
            row = rows[method, layers]
            name = f"**{method}**" if method.startswith("demitasse") else method
            found = [search_of(model.get(method, "RAW"), task, f"{layers}x384") for task in ("hotpotqa-500", "scifact")]
            lines.append(
                f"| {name} | {layers or 'none'} | {row['sts']:.1f} | {found[0]:.1f}, {found[1]:.1f} "
                f"| {row['sentences_a_second']:,.0f} | {row['p50_ms']:.2f} | {row['first_vector_seconds']:.2f} "
                f"| {row['peak_megabytes']:.0f} |"
            )
    return lines


def plan_check() -> list[str]:
    """What was planned, what was measured again, and how far they may differ."""
    lines = ["| budget | answer | quality | p95 ms | texts/s | model MB | noise |", "|---|---|---|---|---|---|---|"]
    for row in benchmark("plan-check")["rows"]:
        plan, again = row["planned"], row["again"]
        pairs = [
            f"{plan[key]:{kind}} → {again[key]:{kind}}"
            for key, kind in (("quality", ".1f"), ("p95_ms", ".2f"), ("texts_per_second", ",.0f"), ("model_mb", ".1f"))
        ]
        vectors = f"{plan['vectors']} vectors of {plan['vector_bytes']} bytes"
        lines.append(
            f"| {row['budget']} | {plan['cut']} {plan['precision']}, {vectors} | "
            + " | ".join(pairs)
            + f" | {row['noise']:.0%} |"
        )
    return lines


def encode_gpu() -> list[str]:
    """Texts a second on a GPU, met for the first time."""
    measured = benchmark("encode-gpu")
    lines = [
        "| new texts | layers | sentence-transformers | demitasse | ratio | by turn | demitasse, again |",
        "|---|---|---|---|---|---|---|",
    ]
    labels = {"sentences": "sentences", "passages": "passages", "million": "sentences, nothing started or remembered"}
    for kind, label in labels.items():
        about = measured["sets"][kind]
        for layers, sets in measured["layers"].items():
            row = sets[kind]
            again = f"{row['demitasse, again']:,.0f}" if "demitasse, again" in row else "-"
            turns = ", ".join(f"{ratio:.1f}" for ratio in row["ratios"])
            lines.append(
                f"| {about['texts']:,} {label}, {round(about['mean_tokens'])} tokens | {layers} "
                f"| {row['sentence-transformers']:,.0f} | {row['demitasse']:,.0f} | {row['ratio']:.1f}x | {turns} "
                f"| {again} |"
            )
    return lines


def corpus_rates() -> list[str]:
    """`embed` beside other ways to encode the same corpus, and what a kill costs each."""
    names = {
        "embed": "**embed**",
        "ray": "embed, Ray on this machine",
        "encode": "`encode`, texts and vectors in memory",
        "loop": "a loop over `encode`, 1,000 at a time",
        "sentence-transformers": "sentence-transformers",
        "fastembed": "fastembed, two processes",
    }
    lines = [
        "| layers | | texts | texts/s | time, embed = 1 | a million, s | peak MB | lost to a kill at half |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in benchmark("corpus-rates")["rates"]:
        for name, label in names.items():
            if (way := row["ways"].get(name)) is None:
                continue
            kill = way.get("kill")
            lost = "all that was done" if kill is None else f"{kill['lost']:.1f} s of {kill['unbroken']:.1f}"
            lines.append(
                f"| {row['layers']} | {label} | {way['rows']:,} | {way['rows_per_second']:,.0f} "
                f"| {way['embed_is_faster']:.2f} | {way['seconds_of_a_million']:,} | {way['peak_mb']:,} | {lost} |"
            )
    return lines


def corpus_plan() -> list[str]:
    """What a sample says that a corpus takes, and what it takes."""
    lines = ["| cut | texts | predicted, s | measured, s | ratio |", "|---|---|---|---|---|"]
    for row in benchmark("corpus-plan")["plan"]:
        lines.append(
            f"| {row['cut']} | {row['rows']:,} | {row['predicted_seconds']} | {row['measured_seconds']} "
            f"| {row['predicted_by_measured']:.2f} |"
        )
    return lines


def openvino() -> list[str]:
    """OpenVINO on one graph beside the built-in blocks."""
    lines = ["| | sentences/s | one sentence, p50 ms |", "|---|---|---|"]
    for name, row in benchmark("openvino")["rows"].items():
        lines.append(f"| {name} | {row['sentences_a_second']:,.0f} | {row['p50_ms']:.2f} |")
    return lines


def train_step() -> list[str]:
    """What a step costs, and its ratio to the plain one."""
    models = benchmark("train-step")["models"]
    lines = ["| | " + " | ".join(models) + " |", "|---|" + "---|" * len(models)]
    for name in next(iter(models.values())):
        cells = [f"{rows[name]['ms']:.0f} ms ({rows[name]['ratio']:.2f}x)" for rows in models.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def aligned_step() -> list[str]:
    """A step of `Aligned`, as it was made and as it is."""
    lines = ["| batches of | before | now | ratio | GPU memory, before and now |", "|---|---|---|---|---|"]
    rows = benchmark("aligned-step")["kinds"]
    for kind, row in rows.items():
        lines.append(
            f"| {row['rows']:,} {kind} | {row['before_ms']:.0f} ms | {row['now_ms']:.0f} ms "
            f"| {row['before_ms'] / row['now_ms']:.2f} | {row['before_gib']:.1f} and {row['now_gib']:.1f} GiB |"
        )
    before, now = (sum(row[key] for row in rows.values()) / len(rows) for key in ("before_ms", "now_ms"))
    return [*lines, f"| each in turn | {before:.0f} ms | {now:.0f} ms | {before / now:.2f} | |"]


def mixed_depths(device: str) -> list[str]:
    """Texts of several depths in one batch, against a batch per depth."""
    lines = ["| texts | in a batch | layers | mixed, ms | by depth, ms | ratio |", "|---|---|---|---|---|---|"]
    for row in benchmark(f"mixed-depths-{device}")["rows"]:
        low, high = row["middle_half"]
        lines.append(
            f"| {row['texts']} | {row['batch']:,} | {row['depths']} | {row['mixed_ms']:.1f} | {row['by_depth_ms']:.1f} "
            f"| {row['ratio']:.2f} ({low:.2f} to {high:.2f}) |"
        )
    return lines


def serve_soak() -> list[str]:
    """What many clients and malformed requests saw."""
    lines = ["| | requests | what came back |", "|---|---|---|"]
    for row in benchmark("serve-soak")["rows"]:
        if row["table"] == "many clients":
            workers = f"{row['workers']} worker{'s' * (row['workers'] > 1)}"
            came = f"all right; largest difference of a number {row['largest difference']}"
            lines.append(
                f"| {row['clients']} clients, {row['seconds']} s, {workers} "
                f"| {row['requests']:,}, {row['texts']:,} texts | {came} |"
            )
        else:
            statuses = ", ".join(f"{row[name]:,} {name}" for name in row if name.isdigit() or name == "closed")
            lines.append(f"| malformed | {row['requests']:,} | {statuses}; {row['MB more']} MB more at the end |")
    return lines


def overload_simulation() -> list[str]:
    """What became of the requests of an overload ramp, by the rule for shedding."""
    lines = [
        "| | in time | refused | too late | mean layers | quality | p50 / p99 ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in benchmark("overload-simulation")["rows"]:
        shares = " | ".join(f"{row[part] / row['asked']:.0%}" for part in ("in_time", "refused", "late"))
        lines.append(
            f"| {row['rule']} | {shares} | {row['mean_layers']:.1f} | {row['quality']:.1%} "
            f"| {row['p50_ms']} / {row['p99_ms']} |"
        )
    return lines


def serve_closed() -> list[str]:
    """Requests per second and latency of servers by clients and layers."""
    rows = benchmark("serve")["closed"]
    by_case = {(row["server"], row["clients"], row["layers"]): row for row in rows}
    servers = list(dict.fromkeys(row["server"] for row in rows))
    peers = servers[1:]
    head = "".join(f" {name}, requests/s | p95 ms |" for name in servers)
    lines = [f"| clients | layers |{head} ratio |", "|---|---|" + "---|---|" * len(servers) + "---|"]
    for clients, layers in dict.fromkeys((row["clients"], row["layers"]) for row in rows):
        cells = []
        for server in servers:
            row = by_case.get((server, clients, layers))
            cells.append("- | -" if row is None else f"{row['requests_per_second']:,.0f} | {row['p95_ms']:.0f}")
        ours, first = by_case[servers[0], clients, layers], by_case[peers[0], clients, layers]
        ratio = ours["requests_per_second"] / first["requests_per_second"]
        lines.append(f"| {clients} | {layers} | " + " | ".join(cells) + f" | {ratio:.1f}x |")
    return lines


def serve_overload() -> list[str]:
    """What became of the queries of an overload, with shedding and without."""
    lines = [
        "| each query has | | sent | in time | refused | too late | mean layers | quality |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in benchmark("serve")["overload"]:
        answered = sum(row["layers"].values())
        mean = sum(int(depth) * count for depth, count in row["layers"].items()) / answered
        refused = sum(row["statuses"].get(status, 0) for status in ("429", "503", "0"))
        late = row["sent"] - row["in_time"] - refused
        shares = " | ".join(f"{count / row['sent']:.0%}" for count in (row["in_time"], refused, late))
        name = row["server"].removeprefix("demitasse").strip(" ,")
        lines.append(
            f"| {row['queries']} | {name} | {row['sent']:,} | {shares} | {mean:.1f} | {row['mean_quality']:.1%} |"
        )
    return lines


def search_peers(name: str, rows: int, dims: int) -> list[str]:
    """Methods of search over the same vectors, by how fast they are."""
    lines = [
        "| | recall@10 | queries/s, one core | two cores | exact float32 = 1 | bytes each | memory, MB | build, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in benchmark(name)["rows"]:
        if (row["rows"], row["dims"]) == (rows, dims):
            breadth = "" if row["breadth"] is None else f", breadth {row['breadth']}"
            lines.append(
                f"| {row['method']}{breadth} | {row['recall']:.3f} | {row['queries_per_second_1']:,.0f} "
                f"| {row['queries_per_second_2']:,.0f} | {row['times_exact_1']:.1f}x, {row['times_exact_2']:.1f}x "
                f"| {row['bytes'] / rows:,.0f} | {row['memory_mb']:,.0f} | {row['build_seconds']:,.0f} |"
            )
    return lines
