"""Which exported operators a node of ONNX Runtime's graph does, or serves.

ONNX Runtime runs a graph of its own making: nodes are fused, renamed (`relu_nchwc`) and put in (`ReorderOutput`, the
reshapes around a `Gemm`). What stays are the names of tensors. A node that makes a tensor of the exported graph does
the work of all exported nodes behind that tensor, back to tensors that other nodes make:

```
exported:  x -> MatMul -> m -> Add -> y -> Relu -> z
runs:      x -> Reshape -> r -> Gemm -> g -> Reshape -> y -> Relu -> z
```

The second `Reshape` makes `y`, but no addition: what it cannot do was done by the node that it reads. It was put in,
as the first one was, and both serve what `Gemm` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from edgex.runtime.engines.onnxruntime.nodes import OnnxNode
from edgex.runtime.engines.trace.source_map import SourceMap

REORDERS = frozenset(("ReorderInput", "ReorderOutput"))
# Nodes that move values and compute none.
MOVERS = REORDERS | frozenset(("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten"))
# Kernels that make bytes: they do what is exported as an operator, an activation and a QuantizeLinear.
_QUANTIZED = frozenset(("QLinearConv", "QLinearAdd", "QLinearMul", "QLinearConcat", "QLinearGlobalAveragePool"))
_ACTIVATIONS = ("aten.relu", "aten.hardtanh", "aten.clamp")
# ATen operators that a mover can do, by the beginning of their names.
_MOVEMENTS = tuple(
    "view _unsafe_view reshape flatten unflatten permute transpose t. numpy_T movedim swapaxes unbind squeeze "  # noqa: SIM905
    "unsqueeze select slice split chunk expand pixel_ channel_shuffle unfold im2col _reshape alias clone".split()
)
# What a change of layout adds to the names of nodes and tensors.
_RENAMED = re.compile(r"_token_\d+$")

# A node's name, and which it is of those with that name.
Key = tuple[str, int]


@dataclass(frozen=True)
class Found:
    """Exported nodes that a node does, main first; or, for one that was put in, the one that it serves."""

    operators: tuple[str, ...]
    put_in: bool = False


class NodeMap:
    """From the name of a node that ran to operators of the source map.

    Args:
        sources: The artifact's source map.
        optimized: Nodes of the graph that ONNX Runtime ran; empty where it is not known.
        ran: Names in a run's profile, with how many nodes each stands for, from `count_nodes`.
    """

    def __init__(self, sources: SourceMap, optimized: Sequence[OnnxNode], ran: Mapping[str, int]) -> None:
        self._sources = sources
        self._makers = {value: name for name, item in sources.operators.items() for value in item.outputs}
        self._users: dict[str, list[str]] = {}
        for name, item in sources.operators.items():
            for value in item.inputs:
                self._users.setdefault(value, []).append(name)
        named: dict[str, list[OnnxNode]] = {}
        for node in optimized:
            named.setdefault(name_of(node), []).append(node)
        numbers = {id(node): number for nodes in named.values() for number, node in enumerate(nodes)}
        # In order of execution. Of nodes that share a name and ran as one row none is known.
        self._nodes = {
            (name_of(node), numbers[id(node)]): node
            for node in optimized
            if len(named[name_of(node)]) <= ran.get(name_of(node), 0)
        }
        self._producers: dict[str, Key] = {}
        self._readers: dict[str, list[Key]] = {}
        for key, node in self._nodes.items():
            self._producers |= dict.fromkeys(node.outputs, key)
            for value in node.inputs:
                self._readers.setdefault(value, []).append(key)
        keys = [(name, number) for name, count in ran.items() for number in range(count)]
        self._ends = {key: self._ends_of(key, len(named.get(key[0], ()))) for key in keys}
        self._made = self._values_made()
        self._served: dict[Key, str] = {}
        for key in reversed(self._nodes):
            self._pass_on(key)
        self._made = self._values_made()
        self._taken: dict[str, str] = {}

    def find(self, key: Key) -> Found:
        """What the node does, or serves."""
        ends = self._ends.get(key)
        if ends:
            behind = self._behind(ends)
            return Found(tuple(sorted(self._take(behind, ends[0]), key=self._rank)))
        beside = self._served.get(key) or self._beside(key)
        return Found((), False) if beside is None else Found((beside,), put_in=True)

    def _values_made(self) -> frozenset[str]:
        operators = self._sources.operators
        return frozenset(value for ends in self._ends.values() for end in ends for value in operators[end].outputs)

    def _ends_of(self, key: Key, alike: int) -> list[str]:
        """The exported nodes that make the tensors which this node makes; `alike` nodes have its name."""
        name, _ = key
        node = self._nodes.get(key)
        if node is not None:
            ends = [end for value in node.outputs if (end := self._maker(value)) is not None]
            if ends:
                return list(dict.fromkeys(ends))
        plain = _plain_name(name)
        if plain in self._sources.operators:
            return [self._requantized(plain) if node is not None and node.op_type in _QUANTIZED else plain]
        maker = self._maker(name) if alike <= 1 else None
        return [] if maker is None or name in REORDERS else [maker]

    def _requantized(self, name: str) -> str:
        """The exported node that quantizes what this one makes, maybe behind an activation."""
        end = name
        while True:
            users = {user for value in self._sources.operators[end].outputs for user in self._users.get(value, ())}
            if len(users) != 1:
                return name
            (end,) = users
            kind = self._sources.operators[end].op
            if ".quantize_per_tensor" in kind:
                return end
            if not kind.startswith(_ACTIVATIONS):
                return name

    def _pass_on(self, key: Key) -> None:
        """What a mover cannot have done was done by the node that it reads."""
        node, ends = self._nodes[key], self._ends.get(key)
        if not ends or node.op_type not in MOVERS or _plain_name(key[0]) in self._sources.operators:
            return
        producer = self._producers.get(node.inputs[0]) if node.inputs else None
        if producer is None:
            return
        behind = self._behind(ends)
        work = [name for name in behind if node.op_type in REORDERS or not self._is_movement(name)]
        if not work:
            return
        self._ends[producer] = list(dict.fromkeys((*work, *self._ends.get(producer, ()))))
        self._ends[key] = [name for name in behind if name not in work]
        self._served[key] = min(work, key=self._rank)

    def _maker(self, value: str) -> str | None:
        """The exported node that makes a tensor, also under the name that a change of layout gave it."""
        for name in (value, _plain_name(value)):
            if name in self._makers:
                return self._makers[name]
        return None

    def _behind(self, ends: Iterable[str]) -> list[str]:
        """The exported nodes behind these, back to tensors that other nodes make."""
        found: dict[str, None] = {}
        queue = list(ends)
        while queue:
            name = queue.pop(0)
            if name in found:
                continue
            found[name] = None
            for value in self._sources.operators[name].inputs:
                if value in self._makers and value not in self._made:
                    queue.append(self._makers[value])
        return list(found)

    def _take(self, names: Iterable[str], end: str) -> list[str]:
        """Those that no node with another end has taken."""
        return [name for name in names if self._taken.setdefault(name, end) == end]

    def _beside(self, key: Key) -> str | None:
        """The operator that a node without one of its own serves: whose value it makes, reads for another, or reads."""
        node = self._nodes.get(key)
        if node is None:
            return None
        for value in node.outputs:
            if (maker := self._maker(value)) is not None:
                return maker
        ahead = self._nearest(node, forward=True) or self._nearest(node, forward=False)
        makers = (self._maker(value) for value in node.inputs)
        return ahead or next((maker for maker in makers if maker is not None), None)

    def _nearest(self, node: OnnxNode, *, forward: bool) -> str | None:
        """The main operator of the nearest node that has one, along the readers of values or along their makers."""
        queue, seen = [node], {id(node)}
        while queue:
            at = queue.pop(0)
            if forward:
                keys = [key for value in at.outputs for key in self._readers.get(value, ())]
            else:
                keys = [self._producers[value] for value in at.inputs if value in self._producers]
            for key in keys:
                if ends := self._ends.get(key):
                    return min(ends, key=self._rank)
                if id(self._nodes[key]) not in seen:
                    seen.add(id(self._nodes[key]))
                    queue.append(self._nodes[key])
        return None

    def _is_movement(self, name: str) -> bool:
        return self._sources.operators[name].op.removeprefix("aten.").startswith(_MOVEMENTS)

    def _rank(self, name: str) -> int:
        """Which of the operators that one node does names it: the lowest, and of equals the last."""
        operator = self._sources.operators[name].op
        if _is_heavy(operator):
            return 0
        return 3 if operator.startswith("quantized_decomposed.") else 2 if operator.startswith(_ACTIVATIONS) else 1


def name_of(node: OnnxNode) -> str:
    """What the profile calls a node."""
    return node.name or node.op_type


def count_nodes(optimized: Sequence[OnnxNode], op_types: Mapping[str, str], times: Mapping[str, int]) -> dict[str, int]:
    """How many nodes each name of a profile stands for.

    Nodes that were put in share one name, that of their operator; a node inside a loop runs several times.

    Args:
        optimized: Nodes of the graph that ran; empty where it is not known.
        op_types: Operator of each name.
        times: How often each name ran.
    """
    named: dict[str, int] = {}
    for node in optimized:
        named[name_of(node)] = named.get(name_of(node), 0) + 1
    return {
        name: count if op_types[name] in REORDERS or named.get(name) == count else 1 for name, count in times.items()
    }


def _plain_name(name: str) -> str:
    """The exported name in one that ONNX Runtime made of it."""
    plain = name.removeprefix("fused ").split("/")[0].removesuffix("_nchwc").removesuffix("_nhwc")
    return _RENAMED.sub("", plain)


def _is_heavy(operator: str) -> bool:
    parts = operator.split(".")
    base = parts[1] if len(parts) > 1 else parts[0]
    return base.startswith(("conv", "linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "scaled_dot_product"))
