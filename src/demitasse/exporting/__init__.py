"""An encoder written as ONNX graphs."""
