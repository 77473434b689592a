"""Quantized programs for oneDNN: which operators run in integers."""
