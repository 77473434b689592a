"""ExecuTorch's passes that look for a pattern in XNNPACK's regions, run only where the pattern can be.

Two passes of ExecuTorch 1.5 make the graphs they look for by exporting small modules, six in all: a third of the time
that it takes to export a small model. A region without a pattern's operators cannot hold the pattern.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from edgex.runtime.support.dependency_messages import quiet_import

if TYPE_CHECKING:
    from torch.fx import GraphModule

# Name of a pass -> operators that each of its patterns has; a test compares them with the patterns.
NEEDED: Mapping[str, frozenset[str]] = {
    "ConvertToUpsampleBilinear2d": frozenset({"aten.upsample_bilinear2d.vec"}),
    "ConvertToSDPAPass": frozenset({"aten._softmax.default", "aten.bmm.default", "aten.any.dim"}),
}


@contextmanager
def possible_patterns() -> Iterator[None]:
    """Within it, a pass whose patterns cannot be in a region leaves the region as it is."""
    with quiet_import():
        from executorch.backends.xnnpack._passes import convert_to_sdpa, convert_to_upsample_bilinear2d

    with ExitStack() as stack:
        for module in (convert_to_sdpa, convert_to_upsample_bilinear2d):
            for name in NEEDED.keys() & vars(module).keys():
                stack.enter_context(_only_where_needed(getattr(module, name), NEEDED[name]))
        yield


@contextmanager
def _only_where_needed(kind: Any, needed: frozenset[str]) -> Iterator[None]:
    from torch.fx.passes.infra.pass_base import PassResult

    original = kind.call

    def call(self: Any, graph_module: GraphModule) -> Any:
        if needed <= operators(graph_module):
            return original(self, graph_module)
        return PassResult(graph_module, False)

    kind.call = call
    try:
        yield
    finally:
        kind.call = original


def operators(graph_module: GraphModule) -> set[str]:
    """Names of the edge operators that a graph calls, for example `aten.bmm.default`."""
    called = (node.target for node in graph_module.graph.nodes if node.op == "call_function")
    return {getattr(target, "__name__", str(target)) for target in called}
