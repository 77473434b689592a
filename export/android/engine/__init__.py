"""What can run a model in an Android app: ExecuTorch or ONNX Runtime, as the artifact says."""
