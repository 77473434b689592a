"""The bounds of symbolic sizes: an adapter over the private part of torch that knows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def bounds_of(expression: Any, ranges: Mapping[Any, Any], least: Mapping[Any, int]) -> tuple[int, int | None]:
    """The smallest and largest value of a symbolic size.

    Args:
        expression: A SymPy expression.
        ranges: An ExportedProgram's `range_constraints`.
        least: For some symbols a lower bound that counts where the range starts below.

    Returns:
        None for the largest where there is no bound.
    """
    import sympy  # type: ignore[import-untyped]
    from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

    known = {
        symbol: ValueRanges(max(least.get(symbol, ranges[symbol].lower), ranges[symbol].lower), ranges[symbol].upper)
        for symbol in expression.free_symbols
        if symbol in ranges
    }
    found = bound_sympy(expression, known)
    low, high = (int(b) if isinstance(b, (int, sympy.Integer)) else None for b in (found.lower, found.upper))
    return (0 if low is None else low), high


def is_plain_symbol(name: str) -> bool:
    """Whether SymPy takes a name for a symbol; N, E and pi are its own."""
    import sympy

    return isinstance(sympy.sympify(name), sympy.Symbol)
