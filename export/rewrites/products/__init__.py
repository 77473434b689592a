"""Sums of products: contractions and convolutions."""
