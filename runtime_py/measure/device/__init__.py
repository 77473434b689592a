"""Profiles and comparisons on a device."""
