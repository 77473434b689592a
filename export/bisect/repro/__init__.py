"""A fault as a file that others can run: the operators alone, in Python and as an artifact."""
