"""How a captured program becomes the native file of each target."""
