"""The expressions in a `.pt2`: sizes, which torch hands to `sympy.sympify`, and guards, which it compiles.

Both functions evaluate what they are given as Python. So an expression is parsed here first, and only calls of
known functions, numbers and names of symbols are accepted. torch writes sizes as SymPy's `srepr`
(`torch/_export/serde/serialize.py`, `_print_sympy`) and guards as Python:

```
Max(Integer(1), FloorDiv(Symbol('s25', positive=True, integer=True), Integer(2)))
(L['x'].size()[0] % 2) == 0
```
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

_MAX_LETTERS = 20_000
_MAX_DEPTH = 60
_MAX_INTEGER = 1 << 64
# 2**64, raised to 64 once more, has 512 bytes; a third time would have 32 kB, and so on.
_MAX_EXPONENT = 64
_MAX_POWERS_IN_POWERS = 2

_SYMBOL = re.compile(r"(?:s|u|ps|zf|zuf|i)[0-9]{1,9}")
_NUMBER = re.compile(r"-?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?(?:e[+-]?[0-9]{1,4})?|inf|nan)")
_KEY = re.compile(r"[\w .:/+-]{1,1000}")

# What srepr of a size is built of: SymPy's own classes, and torch's of torch.utils._sympy.functions.
_SYMPY_NAMES = """
Add Mul Pow Max Min Abs Integer Rational Float Symbol Piecewise ExprCondPair And Or Not Equality Unequality
StrictLessThan LessThan StrictGreaterThan GreaterThan Eq Ne Lt Le Gt Ge floor ceiling sqrt true false
FloorDiv ModularIndexing Where PythonMod Mod CleanDiv CeilToInt FloorToInt CeilDiv PowByNatural FloatPow
FloatTrueDiv IntTrueDiv IsNonOverlappingAndDenseIndicator TruncToFloat TruncToInt RoundToInt RoundDecimal ToFloat
Identity OpaqueUnaryFn_sqrt OpaqueUnaryFn_log OpaqueUnaryFn_exp OpaqueUnaryFn_log2
"""
_SYMPY = frozenset(_SYMPY_NAMES.split())
_POWERS = frozenset({"Pow", "PowByNatural", "FloatPow"})
_ASSUMPTIONS = frozenset({"positive", "integer", "nonnegative", "real", "precision", "evaluate"})
_SIZE_NAMES = frozenset({"true", "false", "oo", "True", "False"})

_GUARD_CALLS = frozenset(
    [f"torch.sym_{name}" for name in ("float", "int", "max", "min", "not", "ite", "sqrt")]
    + [f"math.{name}" for name in ("trunc", "floor", "ceil", "sqrt", "log", "log2", "exp", "isnan")]
    + ["max", "min", "abs", "int", "float", "IsNonOverlappingAndDenseIndicator"]
)
_GUARD_METHODS = frozenset({"size", "stride", "storage_offset", "dim", "numel"})

_OPERATORS = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr),
    *(ast.UAdd, ast.USub, ast.Not, ast.Invert, ast.And, ast.Or),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
)


def check_size(text: str) -> None:
    """Let an expression of a size through: `expr_str` of the archive.

    Raises:
        ValueError: It is anything else.
    """
    _walk(text, _size_leaf)


def check_guard(text: str) -> None:
    """Let a guard through: one of `guards_code` of the archive.

    Raises:
        ValueError: It is anything else.
    """
    _walk(text, _guard_leaf)


def check_symbol(text: str) -> None:
    """Let the name of a symbol through, such as `s25` or `u0`.

    Raises:
        ValueError: It is anything else.
    """
    if not _SYMBOL.fullmatch(text):
        raise ValueError("it is no symbol of a size")


Leaf = Callable[[ast.expr], "list[ast.expr] | None"]


def _walk(text: str, leaf: Leaf) -> None:
    """Check an expression; `leaf` knows the calls and names that its language has."""
    if len(text) > _MAX_LETTERS:
        raise ValueError(f"it has more than {_MAX_LETTERS:,} letters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError, ValueError):
        raise ValueError("it is no expression") from None
    _check(tree, leaf, _MAX_DEPTH, _MAX_POWERS_IN_POWERS)


def _check(node: ast.expr, leaf: Leaf, depth: int, powers: int) -> None:
    if depth == 0:
        raise ValueError("it is nested too deeply")
    if _is_power(node):
        if powers == 0:
            raise ValueError("it raises powers to powers")
        powers -= 1
    for child in _parts(node, leaf):
        _check(child, leaf, depth - 1, powers)


def _parts(node: ast.expr, leaf: Leaf) -> list[ast.expr]:
    """What is below a node that may be there."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, (bool, float)) or (isinstance(node.value, int) and abs(node.value) <= _MAX_INTEGER):
            return []
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, _OPERATORS):
        return [node.operand]
    elif isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATORS):
        if isinstance(node.op, ast.Pow):
            _check_exponent(node.right)
        return [node.left, node.right]
    elif isinstance(node, ast.BoolOp):
        return node.values
    elif isinstance(node, ast.Compare) and all(isinstance(op, _OPERATORS) for op in node.ops):
        return [node.left, *node.comparators]
    else:
        below = leaf(node)
        if below is not None:
            return below
    raise ValueError(f"{ast.unparse(node)[:60]!r} is nothing that torch writes there")


def _size_leaf(node: ast.expr) -> list[ast.expr] | None:
    if isinstance(node, ast.Name):
        return [] if node.id in _SIZE_NAMES or _SYMBOL.fullmatch(node.id) else None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in _SYMPY:
        return None
    if any(k.arg not in _ASSUMPTIONS or not isinstance(k.value, ast.Constant) for k in node.keywords):
        return None
    if any(not isinstance(k.value.value, (bool, int)) for k in node.keywords if isinstance(k.value, ast.Constant)):
        return None
    if node.func.id in ("Symbol", "Float", "Integer"):
        allowed = {"Symbol": _SYMBOL, "Float": _NUMBER, "Integer": None}[node.func.id]
        if len(node.args) != 1:
            return None
        if allowed is None:
            return list(node.args)
        text = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
        return [] if isinstance(text, str) and allowed.fullmatch(text) else None
    if node.func.id in _POWERS:
        if len(node.args) != 2:
            return None
        _check_exponent(node.args[1])
    return list(node.args)


def _guard_leaf(node: ast.expr) -> list[ast.expr] | None:
    if isinstance(node, ast.Call) and not node.keywords:
        if ast.unparse(node.func) in _GUARD_CALLS:
            return list(node.args)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _GUARD_METHODS:
            return [node.func.value] if not node.args else None
    if isinstance(node, ast.Name):
        return [] if node.id in ("L", "inf") else None
    if isinstance(node, ast.Subscript):
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if type(key) is int or (isinstance(key, str) and _KEY.fullmatch(key)):
            return [node.value]
    return None


def _is_power(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _POWERS
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)


def _check_exponent(node: ast.expr) -> None:
    """A power of numbers is computed at once: 9**9**9 would take the memory of the machine."""
    numbers = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, (int, float))]
    nested = any(_is_power(inner) for inner in ast.walk(node) if isinstance(inner, ast.expr))
    if nested or any(abs(number) > _MAX_EXPONENT for number in numbers) or len(numbers) > 4:
        raise ValueError("its exponent is too large")
