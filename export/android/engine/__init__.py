"""What can run a model in an Android app: ExecuTorch, ONNX Runtime or LiteRT, as the artifact says."""
