"""Files changed at random: JSON by its values, tables by their lines, anything by its bytes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

# Stands for what `json.dumps` cannot write, and is replaced in its text.
_NESTED = {f"@nested {depth}@": "[" * depth + "]" * depth for depth in (80, 900, 5000)}
_TWICE = "@twice "
ODD: tuple[Any, ...] = (
    *(None, True, False, "", [], {}, [[]], [None], {"": None}),
    *(0, 1, -1, 2, 7, 255, 2**31 - 1, 2**31, 2**63, -(2**63), 10**30, 10**400, -(10**400)),
    *(0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), float("-inf")),
    *(
        "0",
        "nan",
        "x",
        "1x1",
        "999999999x1",
        "\ud800",
        "\udcff",
        "\x00",
        "a\nb",
        "../..",
        "/",
        "x" * 100_000,
        "é" * 300,
    ),
    *_NESTED,
)


def mutated_json(chance: random.Random, data: bytes) -> bytes:
    """A JSON document with one to three of its values, names or lists changed; by its bytes if it is none any more."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return mutated_bytes(chance, data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        value = _changed(chance, value)
    text = json.dumps(value, indent=chance.choice((None, 1)))
    for written, nested in _NESTED.items():
        text = text.replace(f'"{written}"', nested)
    return text.replace(f'"{_TWICE}', '"').encode("utf-8", "surrogatepass")


def mutated_bytes(chance: random.Random, data: bytes, others: Sequence[bytes] = (b"",)) -> bytes:
    """Bytes with one to three runs of them flipped, zeroed, cut out, moved or taken from another file."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        data = _changed_bytes(chance, data, chance.choice(others))
    return data


def mutated_lines(chance: random.Random, data: bytes) -> bytes:
    """Text with some of its lines dropped, repeated, joined, emptied or, where a line is JSON, changed."""
    lines = data.split(b"\n")
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(lines))
        how = chance.choice(("drop", "repeat", "join", "empty", "json", "field", "bytes"))
        if how == "drop" and len(lines) > 1:
            del lines[at]
        elif how == "repeat":
            lines.insert(at, chance.choice(lines))
        elif how == "join" and at + 1 < len(lines):
            lines[at : at + 2] = [lines[at] + lines[at + 1]]
        elif how == "empty":
            lines[at] = chance.choice((b"", b" ", b"\xef\xbb\xbf", b"\r", b'"', b"\t\t\t", b",,,,"))
        elif how == "json" and lines[at].startswith((b"{", b"[")):
            lines[at] = mutated_json(chance, lines[at]).replace(b"\n", b" ")
        elif how == "field":
            odd = str(chance.choice(ODD)).encode("utf-8", "replace")
            lines[at] = chance.choice((b"\t", b",")).join([*lines[at].split(b"\t")[:-1], odd[:200]])
        else:
            lines[at] = mutated_bytes(chance, lines[at])
    return b"\n".join(lines)


def _changed(chance: random.Random, document: Any) -> Any:
    """A copy of a JSON value with one place in it changed."""
    document = copy.deepcopy(document)
    places = list(_places(document))
    if not places:
        return chance.choice(ODD)
    # Every level is as likely as any other, or the top of a document with long lists would hardly ever change.
    level = chance.choice(sorted({depth for depth, _, _ in places}))
    _, outer, key = chance.choice([place for place in places if place[0] == level])
    how = chance.choice(("odd", "odd", "odd", "drop", "near", "swap", "rename", "twice", "wrap", "grow"))
    if how == "drop":
        del outer[key]
    elif how == "near":
        outer[key] = _near(chance, outer[key])
    elif how == "swap":
        _, other, at = chance.choice(places)
        outer[key] = copy.deepcopy(other[at])
    elif how in ("rename", "twice") and isinstance(outer, dict):
        name = chance.choice([str(at) for _, _, at in places]) if how == "rename" else f"{_TWICE}{key}"
        outer[name] = outer.pop(key) if how == "rename" else copy.deepcopy(chance.choice(ODD))
    elif how == "wrap":
        outer[key] = chance.choice(([outer[key]], {"value": outer[key]}, str(outer[key])[:1000]))
    elif how == "grow" and isinstance(outer[key], list):
        outer[key] = outer[key] * chance.choice((0, 2, 50))
    else:
        outer[key] = chance.choice(ODD)
    return document


def _places(value: Any, depth: int = 0) -> Any:
    """Every (depth, container, key or index) of a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield depth, value, key
        yield from _places(value[key], depth + 1)


def _near(chance: random.Random, value: Any) -> Any:
    """Something like `value`."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        if abs(value) > 1e15:
            return value // 2
        factor = chance.choice((-1, 0, 2, 10, 1000, 10**6, 10**9))
        return chance.choice((value + 1, value - 1, value * factor, float(value), str(value)))
    if isinstance(value, str):
        return chance.choice((value[:-1], value + value, value.upper(), f" {value}", value + "\x00", [value]))
    if isinstance(value, list):
        return chance.choice((value[:-1], value[::-1], value + value, dict.fromkeys(map(str, value))))
    return list(value.items()) if isinstance(value, dict) else chance.choice(ODD)


def _changed_bytes(chance: random.Random, data: bytes, other: bytes) -> bytes:
    size = len(data)
    # Formats have their lengths, names and shapes at the start: half of all changes are there.
    at = chance.randrange(min(size, 2048) if chance.random() < 0.5 else size) if size else 0
    length = chance.choice((1, 1, 2, 4, 8, 64, 1024, max(1, size // 3)))
    before, here, after = data[:at], data[at : at + length], data[at + length :]
    how = chance.choice(
        ("flip", "flip", "flip", "set", "zero", "ones", "cut", "end", "insert", "twice", "splice", "other")
    )
    if how == "flip":
        here = bytes(byte ^ (1 << chance.randrange(8)) for byte in here[:4]) + here[4:]
    elif how == "set":
        here = chance.randbytes(len(here[:4096])) + here[4096:]
    elif how in ("zero", "ones"):
        here = (b"\0" if how == "zero" else b"\xff") * len(here)
    elif how == "cut":
        here = b""
    elif how == "end":
        after = b""
    elif how == "insert":
        here = chance.randbytes(min(length, 4096)) + here
    elif how == "twice":
        here = here + here
    elif how == "splice" and other:
        start = chance.randrange(len(other))
        here = other[start : start + length]
    elif how == "other":
        return other
    return before + here + after


def mutated_safetensors(chance: random.Random, data: bytes) -> bytes:
    """A safetensors file with its header changed as JSON, or some of its numbers."""
    size = int.from_bytes(data[:8], "little")
    header, numbers = data[8 : 8 + size], data[8 + size :]
    if chance.random() < 0.6:
        header = mutated_json(chance, header)
        return len(header).to_bytes(8, "little") + header + numbers
    return data[: 8 + size] + mutated_numbers(chance, numbers)


def mutated_numbers(chance: random.Random, data: bytes) -> bytes:
    """As many bytes, some of which are now NaN, infinite, huge or tiny as little-endian floats."""
    width, odd = chance.choice(((4, b"\0\0\xc0\x7f"), (4, b"\0\0\x80\x7f"), (4, b"\xff\xff\x7f\x7f"), (4, b"\1\0\0\0")))
    changed = bytearray(data)
    for _ in range(chance.choice((1, 10, 1000))):
        at = width * chance.randrange(max(1, len(data) // width))
        changed[at : at + width] = odd
    return bytes(changed[: len(data)])


def mutated_onnx(chance: random.Random, data: bytes) -> bytes:
    """An ONNX graph that is well-formed, with a weight, an attribute, a name or a node changed."""
    import onnx

    model = onnx.load_from_string(data)
    for _ in range(chance.choice((1, 1, 2, 3))):
        chance.choice((_weight, _weight, _node))(chance, model.graph)
    return bytes(model.SerializeToString())


def _weight(chance: random.Random, graph: Any) -> None:
    """Change a weight: its numbers, its shape, its type, or where it is."""
    weight = chance.choice(graph.initializer)
    how = chance.choice(("numbers", "numbers", "dims", "type", "outside"))
    if how == "numbers":
        weight.raw_data = mutated_numbers(chance, weight.raw_data)
    elif how == "dims" and weight.dims:
        weight.dims[0] = chance.choice((0, 1, -1, 1 << 40, weight.dims[0] + 1, weight.dims[0] * 2))
    elif how == "type":
        weight.data_type = chance.randrange(24)
    else:
        weight.data_location = 1  # in another file
        location = chance.choice(("/etc/passwd", "../seed.onnx", "demitasse.json", "/dev/zero"))
        weight.external_data.add(key="location", value=location)
        weight.ClearField("raw_data")


def _node(chance: random.Random, graph: Any) -> None:
    """Change a node: what it reads, what it does, an attribute, a name; or leave it out."""
    node = chance.choice(graph.node)
    how = chance.choice(("wire", "drop", "rename", "op", "int"))
    numbers = [attribute for attribute in node.attribute if attribute.HasField("i")]
    if how == "wire" and node.input:
        node.input[chance.randrange(len(node.input))] = chance.choice(chance.choice(graph.node).output)
    elif how == "drop" and len(graph.node) > 1:
        graph.node.remove(node)
    elif how == "rename":
        value = chance.choice([*graph.input, *graph.output])
        value.name = chance.choice(("hidden", "embedding", "x", "", value.name * 2))
    elif numbers:
        numbers[0].i = chance.choice((0, 1, -1, 2, 7, 1 << 31, -(1 << 63)))
    else:
        node.op_type = chance.choice(graph.node).op_type
