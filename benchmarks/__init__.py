"""The performance suite: edgex beside the bare engines and exporters, in one interleaved run. `make bench`."""
