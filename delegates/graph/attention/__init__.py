"""Operators of edgex's own for attention: what engines have kernels for and PyTorch has no operator."""
