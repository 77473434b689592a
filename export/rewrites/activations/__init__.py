"""Rewrites of activations: into what engines have, and into what forward wrote by hand."""
