"""From texts to vectors, at any cut: reading, tokens, blocks on onnxruntime, exits, `load`. No torch."""
