"""Weights as backends want them: their order in memory, and one use each."""
