"""The precisions a model can run in and the formats it can be exported to, by name.

A file of its own, so that plans and tables can name them without importing an encoder.
"""

from __future__ import annotations

PRECISIONS = ("fp32", "fp16", "bf16", "int8")  # of the model's arithmetic, finest first
BLOCK_FORMATS = {"fp32": "blocks", "int8": "blocks-int8"}  # the export format that runs in each precision without torch
EXPORT_FORMATS = (*BLOCK_FORMATS.values(), "onnx", "onnx-int8", "sentence-transformers")
