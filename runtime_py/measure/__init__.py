"""Measure artifacts: samples, statistics, profiles, comparisons and sweeps."""
