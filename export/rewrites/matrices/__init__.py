"""Linear algebra on small matrices in elementary operators."""
