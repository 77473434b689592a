"""Whether this environment is one in which edgex is known to work."""
