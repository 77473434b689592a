"""PyTorch's own operator samples over every target: `python -m benchmarks.operators`."""
