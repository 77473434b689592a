"""The user's own lines: found in a failure, or by reading their code."""
