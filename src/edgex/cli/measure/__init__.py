"""Commands that measure: profile, compare, report, and sweeps."""
