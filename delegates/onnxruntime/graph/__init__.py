"""From an exported program to an ONNX graph and its file."""
