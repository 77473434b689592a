"""Pages in one file each: a profile or several side by side, and a pick."""
