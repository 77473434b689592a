"""Quantization recipes in the form that ONNX Runtime's kernels take."""
