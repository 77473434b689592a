"""Where an operator comes from: the user's source line and the module path, read off an exported graph's nodes."""

from __future__ import annotations

import os
import re
import sysconfig
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import Node

# What torch writes as the module of nodes that no module ran.
_NO_MODULE = "_empty_nn_module_stack_from_metadata_hook"
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
# torch.export writes a frame of its own, without the folder, to sizes that it reads: torch/fx/passes/runtime_assert.py.
_TORCH_MADE_UP = "torch/"


def source_of(node: Node, source_root: Path) -> str | None:
    """The innermost frame outside torch, as `file.py:line`.

    Args:
        node: A node of an exported graph; `stack_trace` in its meta is what torch.export recorded.
        source_root: Folder of the user's file; files below it are given relative to it, files of installed
            packages relative to where they are installed, others by name only: never an absolute path.
    """
    trace = node.meta.get("stack_trace")
    return source_in_trace(trace, source_root) if isinstance(trace, str) else None


def source_in_trace(trace: str, source_root: Path) -> str | None:
    """The innermost frame outside torch of a formatted stack trace; see `source_of`."""
    for match in reversed(list(_FRAME.finditer(trace))):
        file = match["file"]
        if file.startswith(("<", _TORCH_MADE_UP, *_exporter_roots())):
            continue
        return f"{shorten_path(Path(file), source_root)}:{match['line']}"
    return None


def shorten_path(path: Path, source_root: Path) -> str:
    """`path` relative to the user's folder or to the installed packages, else its name: never absolute."""
    # Installed packages first: a virtual environment often lies inside the user's folder.
    for root in (*_installed_roots(), source_root):
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return path.name


@cache
def _exporter_roots() -> tuple[str, ...]:
    """The folders of torch and executorch, whose frames are not the user's; a folder of theirs may have such a name."""
    specs = (find_spec(name) for name in ("torch", "executorch"))
    return tuple(f"{place}{os.sep}" for spec in specs if spec for place in spec.submodule_search_locations or ())


@cache
def _installed_roots() -> tuple[Path, ...]:
    """Asked for every operator, and a tenth of a second in a plan if it is found out each time."""
    return Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("platlib"))


def module_path_of(node: Node) -> str | None:
    """The innermost module that ran the node, for example `layers.0.attention`; empty for the model itself.

    `nn_module_stack` maps a key to (qualified name, class); the last entry is the innermost. None where a pass made
    the node, for example for a size.
    """
    stack: dict[str, tuple[str, Any]] | None = node.meta.get("nn_module_stack")
    if not stack:
        return None
    name = list(stack.values())[-1][0]
    if name == _NO_MODULE:
        return None
    return re.sub(r"^L\['self'\]\.?", "", name).removeprefix("L__self__").lstrip(".")


def is_operator(node: Node) -> bool:
    """Whether a node counts as an operator: a call_function other than getitem."""
    import operator

    return node.op == "call_function" and node.target is not operator.getitem


def is_conversion(operator: str) -> bool:
    """Whether an operator, by its name, quantizes or dequantizes."""
    return operator.startswith(("quantized_decomposed.", "torchao."))
