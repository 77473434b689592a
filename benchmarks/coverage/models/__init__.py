"""The models of the coverage suite, a file a library, and their weights."""
