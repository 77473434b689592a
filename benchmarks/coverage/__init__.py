"""Which published architectures edgex exports, target by target: `python -m benchmarks.coverage`."""
