"""A region as a plan: what it is made of, how it is fused, and its bytes."""
