"""JSON that somebody else may have written: read within limits, and given a shape before anything is taken from it."""
