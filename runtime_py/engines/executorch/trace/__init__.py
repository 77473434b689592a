"""Operators of an ExecuTorch run, read from what its runtime records."""
