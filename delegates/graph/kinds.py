"""Decompose a program by tracing each kind of operator once, for plans.

Networks repeat themselves: ResNet-50 has 53 convolutions of 23 kinds, a transformer has one layer many times.
`run_decompositions` traces all of them, milliseconds each. What an operator is taken apart into depends on its
arguments' sizes and constants alone, so PyTorch gets a program with one operator of each kind, and what comes back
stands in for each of them.

```
program   a = conv2d(x, w1);  b = relu(a);  c = conv2d(b, w2);  d = relu(c)      # all of one size
kinds     p = conv2d(i0, i1);  q = relu(i2);  return p, q                        # PyTorch decomposes this
result    a = convolution(x, w1, …);  b = relu(a);  c = convolution(b, w2, …);  d = relu(c)
```

Programs whose sizes are not fixed, that branch, or that write to tensors are left to PyTorch as a whole.
"""

from __future__ import annotations

import copy
import dataclasses
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable

    from torch.export import ExportedProgram
    from torch.fx import Graph, Node

Decompose = Callable[["ExportedProgram"], "ExportedProgram"]

# What a new node has of its own; all else it takes from the operator that it stands in for.
_OWN_META = ("val", "tensor_meta", "original_aten", "from_node")


def decompose_kinds(program: ExportedProgram, decompose: Decompose, *, settled: bool = False) -> ExportedProgram | None:
    """The program with each operator replaced by what `decompose` makes of its kind.

    Args:
        program: It writes to nothing; it is not changed, and its tensors are shared.
        decompose: Called once, with a program that holds each kind of operator once and no weights.
        settled: Give up where something lies otherwise in memory than the program says, as what attention is taken
            apart into does: whether a later operator copies depends on it.

    Returns:
        A program with a graph of its own; None where it is not suited.
    """
    uses = _read_uses(program)
    if uses is None:
        return None
    kinds = list(dict.fromkeys(use.kind for use in uses.values()))
    first = {use.kind: use for use in reversed(uses.values())}
    made = decompose(_program_of([first[kind] for kind in kinds], program))
    results = iter(_outputs(made.graph))
    nodes = {node.name: node for node in made.graph.find_nodes(op="placeholder")}
    inputs = iter([nodes[name] for name in made.graph_signature.user_inputs])
    constants = _constants_of(made, nodes)
    pieces = {}
    for kind in kinds:
        own = [next(inputs) for _ in first[kind].tensors]
        pieces[kind] = _Piece(own, [next(results) for _ in first[kind].results], constants)
    if settled and any(_moved(use, pieces[use.kind]) for use in uses.values()):
        return None
    return _Assembly(program, uses, pieces, made.verifiers).finish()


@dataclass(frozen=True)
class _Use:
    """One operator of the program.

    Attributes:
        node: The operator.
        tensors: The nodes that it reads, each once.
        results: The nodes that hold what it makes: itself, or its getitems.
        kind: Equal for operators that are taken apart in the same way.
    """

    node: Node
    tensors: list[Node]
    results: list[Node]
    kind: Hashable


@dataclass(frozen=True)
class _Constant:
    """A tensor that decomposing brought in, for a number in the program.

    Attributes:
        tensor: It.
        spec: Its entry in the signature.
        kept: Whether it is in the state dictionary, else among the constants.
    """

    tensor: Any
    spec: Any
    kept: bool


@dataclass(frozen=True)
class _Piece:
    """What one kind was taken apart into.

    Attributes:
        inputs: Placeholders for `_Use.tensors`.
        results: Nodes, or an input, or a number, for `_Use.results`.
        known: Every constant that decomposing brought in, by placeholder.
        nodes: The operators, in order.
        constants: Those that they read.
    """

    inputs: list[Node]
    results: list[Any]
    known: Mapping[Node, _Constant]
    nodes: list[Node] = field(init=False)
    constants: dict[Node, _Constant] = field(init=False)

    def __post_init__(self) -> None:
        needed: dict[Node, None] = {}
        pending = [result for result in self.results if hasattr(result, "all_input_nodes")]
        while pending:
            node = pending.pop()
            if node not in needed:
                needed[node] = None
                pending += node.all_input_nodes
        found = sorted(needed)
        object.__setattr__(self, "nodes", [node for node in found if node.op != "placeholder"])
        object.__setattr__(self, "constants", {node: self.known[node] for node in found if node in self.known})


def _read_uses(program: ExportedProgram) -> dict[Node, _Use] | None:
    """Every operator, by node; None where one is there that cannot be looked at alone."""
    import torch

    from edgex.delegates.graph.torch_internals import OpOverload

    uses: dict[Node, _Use] = {}
    signature = program.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate or not signature.user_inputs:
        return None
    for node in program.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.op != "call_function":
            return None
        if node.target is operator.getitem:
            if node.args[0] not in uses:
                return None
            continue
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            continue  # exporters drop it
        if not isinstance(node.target, OpOverload) or not _is_plain(node.meta.get("val")):
            return None
        use = _read_use(node)
        if use is None:
            return None
        uses[node] = use
    return uses


def _read_use(node: Node) -> _Use | None:
    tensors: dict[Node, int] = {}
    results = [node]
    if isinstance(node.meta["val"], (list, tuple)):
        results = sorted(node.users, key=lambda user: user.args[1])  # type: ignore[arg-type, return-value]
        if not all(user.target is operator.getitem for user in results):
            return None
        # One node each is enough to find the result by.
        results = list({user.args[1]: user for user in results}.values())

    def freeze(value: Any) -> Hashable:
        if hasattr(value, "all_input_nodes"):
            return ("tensor", tensors.setdefault(value, len(tensors)))
        if isinstance(value, (list, tuple)):
            return ("list", *map(freeze, value))
        return (type(value), repr(value))

    arguments = (freeze(node.args), tuple((name, freeze(value)) for name, value in node.kwargs.items()))
    if not all(_is_plain(tensor.meta.get("val")) for tensor in tensors):
        return None
    described = tuple(_describe(tensor.meta["val"]) for tensor in tensors)
    wanted = tuple(user.args[1] for user in results if user is not node)
    return _Use(node, list(tensors), results, (node.target, arguments, described, wanted))


def _is_plain(value: Any) -> bool:
    """A tensor of fixed size, or several."""
    import torch

    if isinstance(value, (list, tuple)):
        return bool(value) and all(item is None or _is_plain(item) for item in value)
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return False
    return all(isinstance(size, int) for size in (*value.shape, *value.stride(), value.storage_offset()))


def _describe(value: Any) -> Hashable:
    """What a decomposition can see of an argument."""
    if isinstance(value, (list, tuple)):
        return tuple(None if item is None else _describe(item) for item in value)
    return (
        value.dtype, tuple(value.shape), value.stride(), value.storage_offset(), value.device, value.requires_grad,
        value.is_conj(), value.is_neg(), type(value),
    )  # fmt: skip


def _moved(use: _Use, piece: _Piece) -> bool:
    """Whether what a piece makes lies otherwise in memory than what its operator made."""
    for result, found in zip(use.results, piece.results, strict=True):
        if not hasattr(found, "meta"):
            continue
        old, new = result.meta["val"], found.meta["val"]
        if (old.dtype, old.shape, old.stride()) != (new.dtype, new.shape, new.stride()):
            return True
    return False


def _program_of(uses: list[_Use], program: ExportedProgram) -> ExportedProgram:
    """A program that runs each of these operators on inputs of its own and returns what they make."""
    import torch
    from torch.export import ExportedProgram
    from torch.export.graph_signature import (
        ExportGraphSignature,
        InputKind,
        InputSpec,
        OutputKind,
        OutputSpec,
        TensorArgument,
    )

    from edgex.delegates.graph.torch_internals import pytree

    graph = torch.fx.Graph()
    copies: list[dict[Node, Node]] = []
    for use in uses:
        known: dict[Node, Node] = {}
        for tensor in use.tensors:
            known[tensor] = graph.placeholder(f"i{len(copies)}_{len(known)}")
            known[tensor].meta = {"val": tensor.meta["val"], "tensor_meta": tensor.meta.get("tensor_meta")}
        copies.append(known)
    outputs = []
    for use, known in zip(uses, copies, strict=True):
        known[use.node] = _copy_node(graph, use.node, known)
        for result in use.results:
            if result is not use.node:
                known[result] = _copy_node(graph, result, known)
        outputs += [known[result] for result in use.results]
    graph.output(tuple(outputs))
    inputs = graph.find_nodes(op="placeholder")
    in_spec, out_spec = pytree.tree_structure((tuple(inputs), {})), pytree.tree_structure(tuple(outputs))
    return ExportedProgram(
        root=torch.nn.Module(),
        graph=graph,
        graph_signature=ExportGraphSignature(
            [InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None) for node in inputs],
            [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in outputs],
        ),
        state_dict={},
        range_constraints={},
        module_call_graph=[_call(in_spec, out_spec)],
        verifiers=program.verifiers,
    )


def _outputs(graph: Graph) -> Any:
    """What the graph returns."""
    return graph.output_node().args[0]


def _call(in_spec: Any, out_spec: Any) -> Any:
    """How a program is called, without the names of its nodes."""
    from torch.export import ModuleCallEntry, ModuleCallSignature

    return ModuleCallEntry("", ModuleCallSignature([], [], in_spec, out_spec))


def _copy_node(graph: Graph, node: Node, known: Mapping[Node, Node]) -> Node:
    made = graph.node_copy(node, known.__getitem__)
    made.meta = dict(node.meta)
    return made


def _constants_of(program: ExportedProgram, nodes: Mapping[str, Node]) -> dict[Node, _Constant]:
    """What decomposing brought in, by placeholder."""
    from torch.export.graph_signature import InputKind

    found = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind is not InputKind.USER_INPUT and spec.target is not None:
            key = str(spec.target)
            kept = key in program.state_dict
            tensor = program.state_dict[key] if kept else program.constants[key]
            found[nodes[spec.arg.name]] = _Constant(tensor, spec, kept)
    return found


class _Assembly:
    """The program with each operator's piece in its place, under construction."""

    def __init__(
        self, program: ExportedProgram, uses: Mapping[Node, _Use], pieces: Mapping[Hashable, _Piece], verifiers: Any
    ) -> None:
        import torch
        from torch.export.graph_signature import InputKind

        self._program, self._uses, self._pieces, self._verifiers = program, uses, pieces, verifiers
        self._graph = torch.fx.Graph()
        self._signature = copy.deepcopy(program.graph_signature)
        self._constants, self._state = dict(program.constants), dict(program.state_dict)
        self._known: dict[Node, Any] = {}
        specs = self._signature.input_specs
        # Constants that come in go before the user's inputs, as exporters have it.
        self._constants_end = next(at for at, spec in enumerate(specs) if spec.kind is InputKind.USER_INPUT)
        self._first_input = program.graph.find_nodes(op="placeholder")[self._constants_end]

    def finish(self) -> ExportedProgram:
        """Put it together."""
        import torch
        from torch.export import ExportedProgram

        for node in self._program.graph.nodes:
            if node.op == "placeholder":
                copied = _copy_node(self._graph, node, self._known)
                # A copy may not be called like a builtin (`input`), torch.export's placeholders may.
                copied.name, copied.target = node.name, node.target
                self._known[node] = copied
            elif node.op == "output":
                made = self._graph.output(torch.fx.map_arg(node.args[0], self._known.__getitem__))
                made.meta = dict(node.meta)
            elif node in self._uses:
                self._place(self._uses[node])
            elif node.target is operator.getitem:  # perhaps a second one of the same result
                results = self._uses[node.args[0]].results
                self._known[node] = next(self._known[other] for other in results if other.args[1] == node.args[1])
        for spec, result in zip(self._signature.output_specs, _outputs(self._graph), strict=True):
            if hasattr(result, "all_input_nodes"):
                spec.arg.name = result.name
        self._graph.eliminate_dead_code()
        return ExportedProgram(
            root=torch.nn.Module(),
            graph=self._graph,
            graph_signature=self._signature,
            state_dict=self._state,
            range_constraints=dict(self._program.range_constraints),
            module_call_graph=[_call(self._program.call_spec.in_spec, self._program.call_spec.out_spec)],
            example_inputs=self._program.example_inputs,
            constants=self._constants,
            verifiers=self._verifiers,
        )

    def _place(self, use: _Use) -> None:
        """Copy the piece of an operator into the graph."""
        from torch.fx.traceback import NodeSource

        piece = self._pieces[use.kind]
        own = {name: value for name, value in use.node.meta.items() if name not in _OWN_META}
        origin = use.node.meta.get("from_node") or [NodeSource(use.node)]
        inside: dict[Node, Any] = {
            node: self._known[tensor] for node, tensor in zip(piece.inputs, use.tensors, strict=True)
        }
        for node, constant in piece.constants.items():
            inside[node] = self._add_constant(node, constant)
        for node in piece.nodes:
            made = self._graph.node_copy(node, inside.__getitem__)
            kept = {name: node.meta[name] for name in _OWN_META if name in node.meta}
            made.meta = {**kept, **own, "from_node": origin}
            inside[node] = made
        self._known.update(
            (result, inside.get(found, found)) for result, found in zip(use.results, piece.results, strict=True)
        )

    def _add_constant(self, node: Node, constant: _Constant) -> Node:
        """A placeholder of its own for a constant."""
        from torch.export.graph_signature import TensorArgument

        with self._graph.inserting_before(self._known[self._first_input]):
            made = self._graph.placeholder(f"{node.name}_{self._constants_end}")
        made.meta = dict(node.meta)
        (self._state if constant.kept else self._constants)[made.name] = constant.tensor
        spec = dataclasses.replace(constant.spec, arg=TensorArgument(made.name), target=made.name)
        self._signature.input_specs.insert(self._constants_end, spec)
        self._constants_end += 1
        return made
