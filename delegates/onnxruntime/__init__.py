"""How a captured program becomes an ONNX model that ONNX Runtime runs."""
