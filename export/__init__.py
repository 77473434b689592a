"""Model to artifact: find it, capture it, rewrite it, lower it, prove it, write it."""
