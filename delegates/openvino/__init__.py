"""The target `openvino`: the ONNX model of `onnx-cpu`, run by OpenVINO itself."""
