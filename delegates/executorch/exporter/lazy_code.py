"""Graphs whose Python code is written when somebody wants it, not each time a pass has changed them.

A `GraphModule` writes its graph as a Python function and compiles that whenever it is made, changed or copied.
ExecuTorch lowers in some hundred passes that read graphs node by node and never call that function: a seventh of an
export went there.

```
recompile()   code written, compiled      recompile()
recompile()   code written, compiled      recompile()
recompile()   code written, compiled      recompile()
call          runs                        call          code written, compiled, runs
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from torch.fx import GraphModule

from edgex.delegates.graph.torch_internals import PyTreeCodeGen

# Where a graph module keeps its code's text.
_TEXT = "_code"


@contextmanager
def code_on_demand() -> Iterator[None]:
    """Within it, graph modules write their code when it is read or called; at its end those that live have it."""
    write = GraphModule.recompile
    # Those without code. They are told apart by their identity: a module has no other equality.
    waiting: WeakSet[GraphModule] = WeakSet()

    def write_now(module: GraphModule) -> Any:
        waiting.discard(module)
        return write(module)

    def postpone(module: GraphModule) -> _Promise:
        generator = module.graph._codegen
        if isinstance(generator, PyTreeCodeGen):
            module._in_spec, module._out_spec = generator.pytree_info.in_spec, generator.pytree_info.out_spec
        module.__dict__.pop(_TEXT, None)
        waiting.add(module)
        kind: Any = type(module)  # torch makes a class for each module
        kind.forward = _Forward(write_now)
        return _Promise(module, write_now)

    def text(module: GraphModule) -> str:
        if _TEXT not in module.__dict__:
            write_now(module)
        return str(module.__dict__[_TEXT])

    def keep_text(module: GraphModule, value: str) -> None:
        module.__dict__[_TEXT] = value

    changed: Any = GraphModule
    changed.recompile, changed._code = postpone, property(text, keep_text)
    try:
        yield
    finally:
        changed.recompile = write
        del changed._code
        for module in list(waiting):
            write(module)


class _Forward:
    """A module's function, written when it is looked at: torch names a program's inputs as it does."""

    def __init__(self, write: Callable[[GraphModule], Any]) -> None:
        self._write = write

    def __get__(self, module: GraphModule | None, kind: type[GraphModule]) -> Any:
        if module is None:
            return self
        self._write(module)
        return module.forward


class _Promise:
    """What `recompile` gives, written when it is looked at."""

    def __init__(self, module: GraphModule, write: Callable[[GraphModule], Any]) -> None:
        self._module, self._write = module, write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._write(self._module), name)
