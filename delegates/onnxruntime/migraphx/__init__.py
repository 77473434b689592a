"""What MIGraphX takes of an ONNX graph, node by node."""
