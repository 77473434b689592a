"""Fuzzing of everything that edgex reads of others; `make fuzz`."""
