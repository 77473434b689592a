"""What an artifact is made of, and who vouches for it."""
