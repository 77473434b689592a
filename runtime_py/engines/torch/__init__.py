"""The engine `torch`: runs .pt2 files with PyTorch's eager kernels."""
