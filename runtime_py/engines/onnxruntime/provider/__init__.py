"""Execution providers beside the CPU's: found by checks, opened strictly, and asked what they really run."""
