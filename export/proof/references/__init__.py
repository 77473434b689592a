"""What an output is held to where eager float32 alone is not the only right answer."""
