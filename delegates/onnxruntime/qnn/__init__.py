"""The target `onnx-qnn`: an ONNX model for Qualcomm's HTP."""
