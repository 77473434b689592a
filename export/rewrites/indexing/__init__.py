"""Operators that choose, order and place elements."""
