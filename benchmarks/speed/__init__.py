"""The survey of speed: every architecture of the coverage suite, all targets and peers in turns."""
