"""Capture: from the user's module to a program with a flat signature, named dimensions and known state."""
