"""Graph rewrites, one pass a file; each keeps the numbers and says what it changed."""
