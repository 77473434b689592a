"""A target `numpy` for edgex, in a package of its own: a delegate, an engine and the few operators that they share."""
