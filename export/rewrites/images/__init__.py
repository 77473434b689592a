"""Images as engines take them: in a batch, laid along their width, resized by whole rows."""
