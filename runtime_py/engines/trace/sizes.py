"""Sizes in a source map: numbers, or expressions such as `4*n0 + 1`, `(n0//2)` or `Max(1, n0)` over input sizes."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "Max": max,
    "Min": min,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "CeilToInt": lambda number: -(-number // 1),
    "CeilDiv": lambda number, by: -(-number // by),
}
_MAX_POWER = 16


def evaluate_size(size: int | str | None, symbols: Mapping[str, int]) -> int | None:
    """The number that a size is for these values of its symbols.

    Returns:
        None where the size is unknown, names another symbol, or is no expression of whole numbers.
    """
    if size is None or isinstance(size, int):
        return size
    try:
        value = _evaluate(ast.parse(size, mode="eval").body, symbols)
    except (SyntaxError, KeyError, TypeError, ValueError, ArithmeticError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, int) else None


def _evaluate(node: ast.expr, symbols: Mapping[str, int]) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return symbols[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand, symbols)
    if isinstance(node, ast.BinOp):
        one, other = _evaluate(node.left, symbols), _evaluate(node.right, symbols)
        if isinstance(node.op, ast.Pow) and not 0 <= other <= _MAX_POWER:
            raise TypeError("not a size")
        return _OPERATORS[type(node.op)](one, other)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _FUNCTIONS[node.func.id](*(_evaluate(argument, symbols) for argument in node.args))
    raise TypeError("not a size")
