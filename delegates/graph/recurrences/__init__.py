"""Recurrent layers: their cells, and the operator that runs one over all its steps."""
