"""The `reference` target: PyTorch's own eager kernels. The smallest complete delegate, kept as the worked example."""
