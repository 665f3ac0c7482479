"""The OpenAPI document and the server agree: schemathesis sends what the document allows, and what it does not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from servers import running

HERE = Path(__file__).parent
EXAMPLES = 100  # of each operation


def test_the_server_does_what_its_document_says(tmp_path: Path) -> None:
    with running("--timeout-ms", 600_000, "--max-inputs", 64) as server:
        command = [sys.executable, "-m", "schemathesis.cli", "--config-file", HERE / "schemathesis.toml", "run"]
        options = [
            f"{server.url}/openapi.json",
            f"--max-examples={EXAMPLES}",
            "--generation-deterministic",
            "--no-color",
        ]
        ended = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
        said = "\n".join(line[:300] for line in ended.stdout.splitlines())
        assert ended.returncode == 0, said
        print(re.search(r"Test cases:\n.*", said)[0])  # type: ignore[index]
        assert "Tested: 10" in said
        assert "Traceback" not in server.said
        assert "error:" not in server.said
        assert server.embed(input="a").status == 200
