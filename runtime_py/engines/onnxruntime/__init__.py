"""The engine `onnxruntime`: runs .onnx files with ONNX Runtime."""
