"""From texts to vectors at any cut: tokenizing, blocks on onnxruntime, exits, `load`. No torch."""
