"""Rewrites of attention: as products of matrices, masks as sums, rows without a key."""
