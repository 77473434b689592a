"""Runnable sample models, a file each."""
