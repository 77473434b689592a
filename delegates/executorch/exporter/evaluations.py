"""ExecuTorch's passes over one program, with what an operator gives to the same arguments computed once for all.

Lowering runs some forty passes, and nearly each of them traces the program anew: every operator is run on fake tensors,
though a pass changes few of them. With sizes that are not fixed a run takes milliseconds, nearly all of it arithmetic
on symbols. What an operator gives depends on its arguments' types, sizes and constants alone:

```
pass 1    a = mul(x, y)   computed       b = add(a, x)   computed
pass 2    a = mul(x, y)   as before      b = add(a, x)   as before      c = relu(b)   computed
```
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from edgex.delegates.graph.schema import schema_of, torch_operator
from edgex.delegates.graph.torch_internals import FakeTensor, OpOverload, pytree
from edgex.runtime.support.dependency_messages import quiet_import

# What runs otherwise each time, or gives sizes that are known when it runs.
_UNSTEADY = frozenset(
    {torch.Tag.nondeterministic_seeded, torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
)
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


@contextmanager
def shared_evaluations() -> Iterator[None]:
    """Within it, ExecuTorch's passes share what operators give to arguments of the same kind."""
    with quiet_import():
        from executorch.exir.delegate import executorch_call_delegate
        from executorch.exir.pass_base import ExportPass

    memory = _Memory(executorch_call_delegate)
    original = ExportPass._fx

    def traced(self: Any, kind: str, *args: Any) -> Any:
        if kind == "call_function" and not isinstance(self.interpreter, _Remembering):
            self.interpreter = _Remembering(self.interpreter.module, memory)
        return original(self, kind, *args)

    ExportPass._fx = traced
    try:
        yield
    finally:
        # It is a base class's: nothing of this name was in the class itself.
        del ExportPass._fx


class _Memory:
    """What operators gave, by what they were called with."""

    def __init__(self, call_delegate: Any) -> None:
        """Empty.

        Args:
            call_delegate: The operator that calls a backend's region; run, it runs the whole region.
        """
        self._call_delegate = call_delegate
        # The results of calls that are equal: as many as one graph has of them.
        self._known: dict[Hashable, list[Any]] = {}
        # By the object's number, which is only its own while it is kept.
        self._described: dict[int, tuple[Any, Hashable]] = {}

    def find_results(self, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any] | None:
        """Results of equal calls, to be extended; None where what it gives cannot be told from its arguments."""
        operator = torch_operator(target)
        if operator is not self._call_delegate and not _is_steady(operator):
            return None
        leaves, structure = pytree.tree_flatten((args, kwargs))
        # A pass may export a pattern of its own, in another fake mode: without tensors a call does not tell which.
        if not any(map(_is_fake, leaves)):
            return None
        # Of a region's constants, whose values are the region's own, sizes say enough.
        constants = operator is self._call_delegate
        described = [self._describe(leaf, constants=constants) for leaf in leaves]
        if None in described:
            return None
        return self._known.setdefault((operator, structure, tuple(described)), [])

    def _describe(self, leaf: Any, *, constants: bool) -> Hashable | None:
        if isinstance(leaf, torch.nn.Module):
            return self._described.setdefault(id(leaf), (leaf, ("module", id(leaf))))[1]
        if isinstance(leaf, torch.Tensor):
            if not _is_fake(leaf):  # weights are not to be kept
                return ("constant", leaf.dtype, *leaf.shape, *leaf.stride()) if constants else None
            if id(leaf) not in self._described:
                self._described[id(leaf)] = leaf, _describe_tensor(leaf)
            return self._described[id(leaf)][1]
        if isinstance(leaf, _SYMBOLIC):
            return type(leaf), leaf.node.expr
        return type(leaf), repr(leaf)


class _Remembering(torch.fx.Interpreter):
    """Runs the operators of one pass over one graph."""

    def __init__(self, module: Any, memory: _Memory) -> None:
        super().__init__(module)
        self._memory = memory
        # Equal calls in one graph have results of their own, as passes have that change or mark them.
        self._used: set[int] = set()

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the operator gives, computed or remembered."""
        known = self._memory.find_results(target, args, kwargs)
        if known is None:
            return super().call_function(target, args, kwargs)
        found = next((result for result in known if id(result) not in self._used), None)
        if found is None:
            found = super().call_function(target, args, kwargs)
            if not all(map(_is_fake, pytree.tree_leaves(found))):
                return found
            known.append(found)
        self._used.add(id(found))
        return found


def _is_steady(operator: Any) -> bool:
    """Whether it gives the same to the same each time, in memory of its own."""
    if not isinstance(operator, OpOverload) or _UNSTEADY.intersection(operator.tags):
        return False
    schema = schema_of(operator)
    return not schema.is_mutable and all(result.alias_info is None for result in schema.returns)


def _is_fake(value: Any) -> bool:
    return isinstance(value, FakeTensor)


def _describe_tensor(tensor: Any) -> Hashable | None:
    """What an operator can see of a fake tensor; None of one whose values are known."""
    if tensor.constant is not None or tensor.layout != torch.strided:
        return None
    sizes = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    return (
        tensor.dtype, tensor.dim(), tuple(size.node.expr if isinstance(size, _SYMBOLIC) else size for size in sizes),
        tensor.device, tensor.requires_grad, tensor.is_conj(), tensor.is_neg(), type(tensor), id(tensor.fake_mode),
    )  # fmt: skip
