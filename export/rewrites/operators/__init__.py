"""Elementwise operators in terms of others that every engine computes as PyTorch does."""
