"""Small programs run by a Python of their own: for what depends on what was imported, and for what ends a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

OPTIONAL = (
    *("torch", "transformers", "safetensors", "accelerate", "peft", "onnx", "onnxscript"),
    *("matplotlib", "pyarrow", "mteb", "sentence_transformers", "starlette", "uvicorn", "usearch"),
    *("langchain_core", "llama_index", "haystack", "chromadb", "lancedb", "qdrant_client", "psycopg", "pgvector"),
)


def run_program(program: str, *, without: Sequence[str] = (), check: bool = True) -> subprocess.CompletedProcess[str]:
    """What a program printed; the modules `without` cannot be imported in it."""
    blocked = "".join(f"sys.modules[{name!r}] = None\n" for name in without)
    command = [sys.executable, "-c", f"import sys\n{blocked}{program}"]
    run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert not check or run.returncode == 0, run.stderr
    return run
