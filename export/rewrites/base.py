"""What a rewrite reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgex.delegates.graph.provenance import module_path_of, source_of

if TYPE_CHECKING:
    from torch.fx import Node


@dataclass(frozen=True)
class Rewrite:
    """What one pass changed in a program.

    Attributes:
        name: The pass, for example `fold_batch_norm`.
        count: How many operators it removed.
        detail: One sentence for the user.
        sources: Where they came from, each as `module.path (file.py:line)`, in program order, without repeats.
        won: How many operators the target leaves out of its delegate without it, and takes with it; None where that
            was not counted.
    """

    name: str
    count: int
    detail: str
    sources: tuple[str, ...]
    won: int | None = None


def locations_of(nodes: Iterable[Node], source_root: Path) -> tuple[str, ...]:
    """Where nodes come from, for `Rewrite.sources`; nodes without module path and source line are left out."""
    found: dict[str, None] = {}
    for node in nodes:
        module, source = module_path_of(node), source_of(node, source_root)
        if module and source:
            found[f"{module} ({source})"] = None
        elif module or source:
            found[module or source or ""] = None
    return tuple(found)


def location_of(node: Node, source_root: Path) -> str | None:
    """Where one node comes from, for an error's `where`."""
    return next(iter(locations_of([node], source_root)), None)
