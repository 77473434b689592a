"""Quantize a captured program before it is lowered: calibration data, observers, PT2E, and the proof's reference."""
