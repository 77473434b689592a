"""Forms in which ONNX Runtime has one kernel for what are several operators in ONNX."""
