"""sentence-transformers behind FastAPI, as its users write such a server: the peer of benchmarks/serve.py.

    python benchmarks/peer_server.py MODEL PORT

A request is that of OpenAI with a field `layers`. Layers are sliced by hand, as the documentation of
sentence-transformers shows, one model for each number of layers. An endpoint that is a plain function runs in the
threads of FastAPI, so that the server goes on answering while torch computes.
"""

from __future__ import annotations

import copy
import sys
from functools import cache
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer

app = FastAPI()
whole = SentenceTransformer(sys.argv[1], device="cpu")


class Request(BaseModel):
    input: list[str] | str
    model: str = ""
    layers: int = 6


@cache
def cut(layers: int) -> SentenceTransformer:
    small = copy.deepcopy(whole)
    encoder = small[0].auto_model.encoder
    encoder.layer = encoder.layer[:layers]
    return small


@app.get("/ready")
def ready() -> str:
    for layers in (6, 3, 1):
        cut(layers).encode(["warm"])
    return "ready"


@app.post("/v1/embeddings")
def embeddings(request: Request) -> dict[str, Any]:
    texts = [request.input] if isinstance(request.input, str) else request.input
    vectors = cut(request.layers).encode(texts, normalize_embeddings=True, show_progress_bar=False)
    data = [
        {"object": "embedding", "index": index, "embedding": vector.tolist()} for index, vector in enumerate(vectors)
    ]
    return {"object": "list", "data": data, "model": request.model}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error", access_log=False)
