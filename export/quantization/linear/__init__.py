"""Recipes for linear layers alone: their weights, the layer that gives the scores, and how both are converted."""
