"""Pooling in terms of the forms that engines have kernels for, and what else reduces."""
