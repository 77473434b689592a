"""Tell a program's shape environment the names of its flat inputs: adapter of torch's ShapeEnv and its sources.

Every ExportedProgram turns the environment's guards into code that its `module()` runs first. Without this the code
would look for the containers that a flat signature does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch


def rename_shape_sources(tensors: Sequence[torch.Tensor], new_names: Mapping[str, str]) -> None:
    """Rename the inputs from which the environment takes its sizes.

    A symbol whose source has no new name loses its guards. So do guards against 0 and 1: torch.export traces as if
    these sizes did not occur, and allows them where the range does.

    Args:
        tensors: The fake tensors of the inputs.
        new_names: From `L['batch']['mask']`, the environment's expression, to `batch_mask`.
    """
    sizes: list[Any] = [size for tensor in tensors for size in tensor.shape if isinstance(size, torch.SymInt)]
    environment = sizes[0].node.shape_env if sizes else None
    if environment is None:
        return
    environment.guards = [guard for guard in environment.guards if not _is_against_zero_or_one(guard.expr)]
    for symbol, sources in list(environment.var_to_sources.items()):
        flat = [new for source in sources if (new := _rename(source, new_names)) is not None]
        if flat:
            environment.var_to_sources[symbol] = flat
        else:
            del environment.var_to_sources[symbol]


def _rename(source: Any, new_names: Mapping[str, str]) -> Any | None:
    """The same property of the renamed input, or None when the source is not a property of an input."""
    from torch._dynamo.source import LocalSource, TensorPropertySource

    if not isinstance(source, TensorPropertySource) or source.base.name not in new_names:
        return None
    return TensorPropertySource(LocalSource(new_names[source.base.name]), source.prop, source.idx)


def _is_against_zero_or_one(guard: Any) -> bool:
    import sympy  # type: ignore[import-untyped]

    return isinstance(guard, sympy.Ne) and bool(guard.args[1] in (0, 1))
