"""OpenVINO as an engine: it reads `model.onnx` as it is."""
