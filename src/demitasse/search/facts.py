"""What an index holds, how large it is and what was measured, as plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from demitasse.search.catalog import CATALOG
from demitasse.search.description import Description
from demitasse.search.segments import Layout
from demitasse.search.snapshot import Snapshot


def facts(folder: Path, description: Description, snapshot: Snapshot) -> dict[str, Any]:
    """The facts of the index in `folder`, in the state of `snapshot`."""
    model, sizes, graph = description.model, snapshot.sizes, snapshot.graph
    vectors = [segment.entry for segment in snapshot.segments]
    return {
        "texts": len(snapshot),
        "cut": str(description.cut),
        "vectors": "int8",
        "model": "built-in" if model.built_in else model.folder or model.name,
        "precision": model.precision,
        "space": description.space.fingerprint,
        "files": len(vectors),
        "deleted": snapshot.rows - len(snapshot),
        "bytes": {
            "vectors": sum(Layout(entry.rows, description.cut.dims).bytes for entry in vectors),
            "texts": (folder / CATALOG).stat().st_size,
            "graph": graph.bytes if graph else 0,
        },
        "measured": sizes.as_plain() if sizes.rows else None,
        "graph": graph.entry.as_plain() if graph else None,
    }
