"""Find the line of the user's code that does something, by reading it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

_MUTATING_METHODS = frozenset(
    ("append", "extend", "insert", "add", "update", "pop", "remove", "clear", "setdefault", "popleft", "appendleft")
)


@dataclass(frozen=True)
class Place:
    """A line of a file."""

    file: str
    line: int


def find_write(file: str | None, name: str, *, on_self: bool, within: str | None = None) -> Place | None:
    """The first line, outside `__init__`, that assigns to a name or to a part of it, or calls a method that does.

    Args:
        file: A Python file.
        name: An attribute (`on_self`) or a global.
        on_self: Whether the name is an attribute of something.
        within: A class of the file to whose methods to keep.
    """
    for function in _functions(file, within):
        if function.name != "__init__":
            for node in ast.walk(function):
                if any(_is_part_of(target, name, on_self=on_self) for target in _written_by(node)):
                    return Place(str(file), node.lineno)  # type: ignore[attr-defined]
    return None


def find_definition(file: str | None, name: str) -> Place | None:
    """The last line of a file, outside functions and classes, that assigns to a name or defines it as a function."""
    tree = _parse(file)
    lines = [
        node.lineno
        for node in ([] if tree is None else _own_nodes(tree))
        if isinstance(node, ast.stmt)
        and any(isinstance(target, ast.Name) and target.id == name for target in _written_by(node))
    ]
    lines += [f.lineno for f in getattr(tree, "body", ()) if isinstance(f, ast.FunctionDef) and f.name == name]
    return Place(str(file), max(lines)) if lines else None


def find_call(file: str | None, spellings: tuple[str, ...]) -> Place | None:
    """The first line that calls something whose spelling starts with one of these, for example `np.random.`."""
    for function in _functions(file):
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(spellings):
                return Place(str(file), node.lineno)
    return None


def find_return(module: torch.nn.Module) -> Place | None:
    """The last `return` of a module's forward."""
    try:
        forward = inspect.unwrap(type(module).forward)
        file, first = inspect.getsourcefile(forward), forward.__code__.co_firstlineno
    except (AttributeError, TypeError):
        return None
    for function in _functions(file):
        start = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
        if function.name == "forward" and start == first:
            returns = [node.lineno for node in _own_nodes(function) if isinstance(node, ast.Return)]
            return Place(str(file), max(returns, default=first))
    return None


def file_of(kind: type) -> str | None:
    """The file in which a class is written."""
    try:
        return inspect.getsourcefile(kind)
    except TypeError:
        return None


def _functions(file: str | None, within: str | None = None) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = _parse(file)
    nodes = list(ast.walk(tree)) if tree is not None else []
    roots = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name == within] if within else nodes
    for root in roots:
        for node in ast.walk(root) if within else [root]:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node


def _parse(file: str | None) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_text(encoding="utf-8")) if file else None
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, or of a module, without those of functions and classes inside it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield node
            yield from _own_nodes(node)


def _written_by(node: ast.AST) -> list[ast.expr]:
    """What a statement or a call changes."""
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return [node.target]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        method = node.func.attr
        if method in _MUTATING_METHODS or (method.endswith("_") and not method.endswith("__")):
            return [node.func.value]
    return []


def _is_part_of(target: ast.expr, name: str, *, on_self: bool) -> bool:
    """Whether an expression is the name, an item of it, or an attribute of it."""
    while True:
        if on_self and isinstance(target, ast.Attribute) and target.attr == name:
            return True
        if not on_self and isinstance(target, ast.Name):
            return target.id == name
        if isinstance(target, (ast.Subscript, ast.Attribute, ast.Starred)):
            target = target.value
        elif isinstance(target, (ast.Tuple, ast.List)):
            return any(_is_part_of(item, name, on_self=on_self) for item in target.elts)
        else:
            return False
