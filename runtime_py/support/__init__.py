"""What the other folders stand on: the machine, memory, the cache, native builds, entry points."""
