"""This machine: what it is, its memory, how many threads a run takes, and what else it does."""
