"""Forms of ONNX graphs that ONNX Runtime is quick for: one kernel for several operators, or others than slow ones."""
