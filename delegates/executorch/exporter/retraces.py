"""ExecuTorch's passes without traces that change nothing.

Most passes look for what they change in the graph, node by node, and have the whole graph traced anew behind that, so
that every node's metadata are right. XNNPACK's backend runs ten such passes over each region, and nearly all of them
find nothing:

```
before  trace 1: new graph   pass finds nothing   trace 2: the same graph   pass finds nothing   trace 3: the same graph
after   trace 1: new graph   pass finds nothing                             pass finds nothing
```
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.fx import GraphModule

from edgex.runtime.support.dependency_messages import quiet_import

# What a pass may define and have its traces be the same all the same: `call` is what calls for them.
_NO_PART_OF_TRACES = frozenset({"call", "requires", "ensures", "__init__"})


@contextmanager
def retraces_spared() -> Iterator[None]:
    """Within it, a pass that changes nothing while it traces leaves alone what nobody has changed since a trace."""
    with quiet_import():
        from executorch.exir.pass_base import ExportPass
        from torch.fx.passes.infra.pass_base import PassResult

    trace = ExportPass.call
    # The graph that was traced last; passes run one behind the other.
    last: list[_Traced] = []

    def call(self: Any, module: GraphModule) -> Any:
        if last and last[0].is_unchanged(module) and _only_traces(type(self), ExportPass):
            return PassResult(module, True)
        result = trace(self, module)
        last[:] = [_Traced(result.graph_module)]
        return result

    ExportPass.call = call
    try:
        yield
    finally:
        # It is a base class's: nothing of this name was in the class itself.
        del ExportPass.call


class _Traced:
    """A graph as a trace has left it."""

    def __init__(self, module: GraphModule) -> None:
        self._module = module
        self._nodes = _describe(module)

    def is_unchanged(self, module: GraphModule) -> bool:
        """Whether it is this one still, node by node."""
        if module is not self._module:
            return False
        now = _describe(module)
        return len(now) == len(self._nodes) and all(
            all(one is other for one, other in zip(new, old, strict=True))
            for new, old in zip(now, self._nodes, strict=True)
        )


def _describe(module: GraphModule) -> list[tuple[Any, ...]]:
    """What a trace reads of nodes; torch.fx never changes arguments in place, it gives a node other ones."""
    return [(node, node.target, node.args, node.kwargs, node.meta.get("val")) for node in module.graph.nodes]


def _only_traces(kind: type, base: type) -> bool:
    """Whether a pass gives every node as it finds it: it defines no method that tracing calls."""
    own = kind.__mro__[: kind.__mro__.index(base)]
    methods = {name for definer in own for name in vars(definer) if callable(getattr(base, name, None))}
    return methods <= _NO_PART_OF_TRACES
