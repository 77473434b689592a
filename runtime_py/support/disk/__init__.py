"""Temporary files: held while they are written, swapped into place, removed when their process is gone."""
