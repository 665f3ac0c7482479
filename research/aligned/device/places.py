"""Where the files of an exploration lie, and JSON files that are never half written."""

from __future__ import annotations

import json
import os

ROOT = os.environ.get("ALIGNED_ROOT", os.path.expanduser("~/aligned"))


def folder(*parts):
    return os.path.join(ROOT, *parts)


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_json(path, value):
    """Written aside (under a name that no listing shows) and moved into place."""
    aside = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}")
    with open(aside, "w", encoding="utf-8") as file:
        json.dump(value, file)
    os.replace(aside, path)
