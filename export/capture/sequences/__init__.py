"""Packed sequences in a program that has tensors of fixed sizes."""
