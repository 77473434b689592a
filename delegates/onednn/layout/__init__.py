"""Where values lie in memory: orders of dimensions, views without copies, symbolic sizes."""
