"""`--exclude OP[@module]`: operators that stay out of the delegate and run in the engine's own kernels.

```
aten.gelu.default          every GELU; the overload, or `aten` too, may be left out: aten.gelu, gelu
gelu@layers.0              those that layers.0 or a module inside of it runs
```
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgex.delegates.graph.provenance import is_conversion, is_operator, module_path_of
from edgex.errors import UsageError, nearest_name, nearest_names

if TYPE_CHECKING:
    from torch.fx import Node

    from edgex.delegates.base import CapturedProgram
    from edgex.export.target_model import TargetModel


def exclude_operators(models: Mapping[str, TargetModel], wanted: Sequence[str]) -> dict[str, TargetModel]:
    """Each target's model, with the operators marked that stay out of its delegate.

    Args:
        models: Rewritten; what a rewrite replaced is no operator any more.
        wanted: `OP[@module]` each.

    Raises:
        UsageError: The program of one of them has no such operator, or not in that module.
    """
    if not wanted:
        return dict(models)
    found = {}
    for name, model in models.items():
        program = model.rewritten.program
        excluded = frozenset(node for text in wanted for node in find_excluded(program, text))
        found[name] = replace(model, rewritten=replace(model.rewritten, program=replace(program, excluded=excluded)))
    return found


def find_excluded(program: CapturedProgram, text: str) -> frozenset[str]:
    """Names of the nodes that one `OP[@module]` means.

    Raises:
        UsageError: There are none.
    """
    operator, _, module = text.partition("@")
    nodes = [node for node in program.exported.graph.nodes if is_operator(node) and not is_conversion(str(node.target))]
    named = [node for node in nodes if operator in _spellings(node)]
    if not named:
        raise UsageError(
            f"--exclude {text}: the program that is lowered has no operator {operator!r}",
            why=_nearest(operator, nodes),
            fix="name one of these, as OP or OP@module.path",
        )
    chosen = [node for node in named if not module or _is_inside(module_path_of(node), module)]
    if not chosen:
        places = {found for node in named if (found := module_path_of(node))}
        raise UsageError(
            f"--exclude {text}: no {operator} runs in {module!r}",
            why=nearest_name(module, places),
            fix="name one of these modules, or none for all",
        )
    return frozenset(node.name for node in chosen)


def _nearest(operator: str, nodes: Sequence[Node]) -> str:
    """The operators that there are, and which of them may have been meant, in whatever spelling."""
    whole = {spelling: str(node.target) for node in nodes for spelling in _spellings(node)}
    meant = sorted({whole[spelling] for spelling in nearest_names(operator, whole)})
    hint = f"did you mean {' or '.join(map(repr, meant))}? " if meant else ""
    return f"{hint}known: {', '.join(sorted(set(whole.values()))) or 'none'}"


def _spellings(node: Node) -> Iterable[str]:
    """`aten.gelu.default`, `aten.gelu`, `gelu`."""
    whole = str(node.target)
    without_overload = whole.rpartition(".")[0] if whole.count(".") > 1 else whole
    return whole, without_overload, without_overload.partition(".")[2]


def _is_inside(path: str | None, module: str) -> bool:
    return path is not None and (path == module or path.startswith(f"{module}."))
