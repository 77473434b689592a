"""What flows through a graph, for the profiler: dtypes, shapes and work, sizes as expressions over the inputs' sizes.

```
{"symbols": {"n0": {"input": "x", "dim": 0, "factor": 1, "rest": 0}},   # size of dimension 0 of x = factor * n0 + rest
 "values": {"x": {"dtype": "float32", "shape": ["n0", 3, 8, 8]}, …}}
```

A size is a number, an expression such as `4*n0 + 1` or `(n0//2)`, or null where no input shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.provenance import is_operator
from edgex.delegates.graph.work import express_flops

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

Size = int | str | None


@dataclass(frozen=True)
class NodeValues:
    """One operator's place in the flow.

    Attributes:
        inputs: Names of the values that it reads, weights included.
        outputs: Names of those that it makes.
        flops: Floating-point operations, as a size.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    flops: Size


@dataclass(frozen=True)
class GraphValues:
    """The values of a graph.

    Attributes:
        symbols: As in the document.
        values: As in the document.
        nodes: Each operator's, by its node's name.
        results: Names of the values that the graph returns.
    """

    symbols: dict[str, dict[str, Any]]
    values: dict[str, dict[str, Any]]
    nodes: dict[str, NodeValues]
    results: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The part of a source map that the flow is."""
        return {"symbols": self.symbols, "values": self.values, "results": list(self.results)}


def read_graph_values(program: ExportedProgram, input_names: Sequence[str]) -> GraphValues:
    """Describe a program's top graph.

    Args:
        program: Its nodes' meta holds `val`.
        input_names: The user's name of each user input, in order.
    """
    placeholders = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    users = [placeholders.get(str(name)) for name in program.graph_signature.user_inputs]
    names = _SizeNames()
    for node, name in zip(users, input_names, strict=True):
        if node is not None:
            names.add_input(name, node)
    values = {name: described for name, node in placeholders.items() if (described := names.describe(node))}
    nodes = {}
    for node in program.graph.nodes:
        if is_operator(node):
            for made in _made_by(node):
                if described := names.describe(made):
                    values[made.name] = described
            inputs = dict.fromkeys(read.name for read in node.all_input_nodes if read.name in values)
            outputs = tuple(made.name for made in _made_by(node) if made.name in values)
            nodes[node.name] = NodeValues(tuple(inputs), outputs, names.write(express_flops(node)))
    results = tuple(node.name for node in program.graph.output_node().all_input_nodes if node.name in values)
    return GraphValues(names.document, values, nodes, results)


def _made_by(node: Node) -> Iterable[Node]:
    """The node, or where it has several outputs the nodes that take them apart."""
    if isinstance(node.meta.get("val"), (list, tuple)):
        return [user for user in node.users if user.op == "call_function" and not is_operator(user)]
    return [node]


@dataclass
class _SizeNames:
    """Sizes as the document writes them: torch's symbols under names that are the same in every process."""

    document: dict[str, dict[str, Any]] = field(default_factory=dict)
    _known: dict[Any, Any] = field(default_factory=dict)

    def add_input(self, name: str, node: Node) -> None:
        """Each size of an input that holds one unknown symbol, linearly, tells that symbol."""
        import sympy  # type: ignore[import-untyped]

        for dim, size in enumerate(getattr(node.meta.get("val"), "shape", ())):
            expression = None if isinstance(size, int) else size.node.expr
            symbols = getattr(expression, "free_symbols", ())
            if expression is None or len(symbols) != 1 or (symbol := next(iter(symbols))) in self._known:
                continue
            factor, rest = expression.coeff(symbol, 1), expression.subs(symbol, 0)
            if factor.is_Integer and rest.is_Integer and (factor * symbol + rest - expression).expand() == 0:
                own = f"n{len(self.document)}"
                self._known[symbol] = sympy.Symbol(own, integer=True, positive=True)
                self.document[own] = {"input": name, "dim": dim, "factor": int(factor), "rest": int(rest)}

    def describe(self, node: Node) -> dict[str, Any] | None:
        """`{"dtype", "shape"}` of a node that is a tensor."""
        import torch

        tensor = node.meta.get("val")
        if not isinstance(tensor, torch.Tensor):
            return None
        dtype = str(tensor.dtype).removeprefix("torch.")
        return {"dtype": dtype, "shape": [self.write(_expression(size)) for size in tensor.shape]}

    def write(self, size: Any) -> Size:
        """A number or an expression; None where a symbol in it is not known from the inputs."""
        if size is None or isinstance(size, int):
            return size
        if getattr(size, "is_Integer", False):
            return int(size)
        if not set(size.free_symbols) <= set(self._known):
            return None
        return str(size.xreplace(self._known))


def _expression(size: Any) -> Any:
    return size if isinstance(size, int) else size.node.expr


def largest_size(size: Any) -> int | None:
    """What a size of a fake tensor is at most, by the bounds that the user or torch gave; None without one."""
    if isinstance(size, int):
        return size
    largest = size.node.shape_env.bound_sympy(size.node.expr).upper
    return int(largest) if largest.is_Integer else None
