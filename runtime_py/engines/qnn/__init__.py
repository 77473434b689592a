"""Qualcomm's HTP (the NPU of Snapdragon SoCs) through the QNN provider of ONNX Runtime, or a simulator of one."""
