"""AMD GPUs through ONNX Runtime: finding one honestly, and the two ways to MIGraphX."""
