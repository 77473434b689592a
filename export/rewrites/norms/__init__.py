"""Normalizations in terms of operators that engines compute accurately."""
