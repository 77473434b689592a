"""Graph rewrites of means and sums: over many numbers, along rows, over channels."""
