"""What the messages of the engines mean: an offline dictionary, and the search in it."""
