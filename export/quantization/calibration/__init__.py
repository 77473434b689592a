"""Calibration data: where it comes from, one sample at a time, and what is wrong with it."""
