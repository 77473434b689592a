"""Compare artifacts, or saved profiles: `edgex.compare(a, b)`."""
