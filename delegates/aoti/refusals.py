"""What TorchInductor and the C++ compiler fail on, as an error with the user's line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from edgex.delegates.graph.provenance import is_operator, source_in_trace, source_of
from edgex.delegates.whole_programs import OTHERS
from edgex.errors import LoweringError

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

TAKER = "TorchInductor"
# How its messages name the operator that it was at.
_TARGET = re.compile(r"^\s*target: (\S+)", re.MULTILINE)
# Libraries whose operators are part of torch.
_OWN = ("aten", "prims", "higher_order", "torch", "_operator", "math")


def find_foreign(exported: ExportedProgram) -> list[Node]:
    """Operators of other libraries: the compiled program would call them in a process that does not know them."""

    def library(node: Node) -> str:
        named = getattr(node.target, "namespace", None) or getattr(node.target, "__module__", "")
        return str(named).partition(".")[0]

    return [node for node in exported.graph.nodes if is_operator(node) and library(node) not in _OWN]


def refuse_compilation(error: Exception, exported: ExportedProgram, source_root: Path) -> LoweringError:
    """The error of a compilation that failed.

    Args:
        error: What TorchInductor raised.
        exported: The program that it was given.
        source_root: Folder of the user's file.
    """
    text = str(error)
    target = _TARGET.search(text)
    operator = target[1] if target else None
    node = next((node for node in exported.graph.nodes if str(node.target) == operator), None)
    where = (source_of(node, source_root) if node is not None else None) or source_in_trace(text, source_root)
    what = f"{TAKER} does not compile this model" + (f": {operator}" if operator else "")
    fix = f"rewrite what is at this line, or see with `edgex why MODEL -t {OTHERS}` which other target takes it"
    return LoweringError(what, where, fix, why="\n".join(_relevant_lines(text)) or type(error).__name__)


def _relevant_lines(text: str) -> list[str]:
    """Lines of a failed compilation that say something: the compiler's errors, else the first that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [line for line in lines if " error: " in line][:3] or lines[:1]
