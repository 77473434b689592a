"""Traced runs: what the readers of all engines share."""
