"""Measure a session: load, first run, steady latency, memory, machine noise."""
