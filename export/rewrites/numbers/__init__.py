"""Numbers as types: what a program mixes, and what an engine does not hold."""
