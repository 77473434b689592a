"""Hold artifacts, or saved profiles, against each other: `edgex.compare(a, b)`."""
