"""Which operators go to oneDNN, in which regions, and why the others do not."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from edgex.delegates.executorch.constants import constant_readers
from edgex.delegates.executorch.exir import is_excluded, operator_name
from edgex.delegates.executorch.lowering import OnPartition
from edgex.delegates.executorch.refusals import EXCLUDED, SIZES_ARE_CHEAP, Refusal, refuse_unknown
from edgex.delegates.graph.provenance import is_operator
from edgex.delegates.onednn.caches import keep_caches_in_place
from edgex.delegates.onednn.followed_sizes import find_unfollowed
from edgex.delegates.onednn.layout.sizes import may_be_none
from edgex.delegates.onednn.operators.table import KEPT_WHOLE, OPERATORS
from edgex.delegates.onednn.plan import graph_api
from edgex.delegates.onednn.plan.lowering import OneDnnGraphBackend
from edgex.delegates.onednn.plan.region import RegionBuilder, make_value
from edgex.delegates.onednn.plan.values import EMBEDDING, Operation, Refused, Value
from edgex.delegates.onednn.quantized.rules import QUANTIZED_OPERATORS, free_input

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

_ALONE = Refusal(
    "attribute",
    "it computes nothing, only copies or looks at memory in another way, and no operator beside it goes to oneDNN",
)

_UNFOLLOWED = Refusal(
    "dynamic_shape", "it has a size that no tensor beside it has: a region computes its sizes from its inputs'"
)


def make_partitioner(on_partition: OnPartition, excluded: frozenset[str] = frozenset()) -> Any:
    """The partitioner; `on_partition` is called once with what it did. It takes nothing of the `excluded` nodes."""
    return _OneDnnPartitioner(on_partition, excluded)


class _OneDnnPartitioner(Partitioner):  # type: ignore[misc]  # executorch ships no types
    def __init__(self, on_partition: OnPartition, excluded: frozenset[str]) -> None:
        super().__init__()
        self._on_partition, self._excluded = on_partition, excluded
        self.edge_passes = (keep_caches_in_place,)
        self.delegation_spec = DelegationSpec(OneDnnGraphBackend.__name__, [])
        # As they were given: ExecuTorch's passes leave sizes from 2 on.
        self._ranges: dict[Any, Any] = {}

    def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[Any], Callable[[Node], bool] | None]:
        """What to keep whole: where it will be taken, which is never inside of branches."""
        self._ranges = {**ep.range_constraints, **self._ranges}
        judge = _Judge(ep, self._excluded, self._ranges)
        kept = [getattr(torch.ops.aten, name).default for name in KEPT_WHOLE]
        kept += [torch.ops.aten.upsample_nearest2d.vec, torch.ops.aten.upsample_bilinear2d.vec]
        wanted = frozenset(kept)  # ExecuTorch asks about every node, and only keeps these
        return kept, lambda node: node.target in wanted and node.graph is ep.graph and judge.refusal(node) is None

    def partition(self, exported_program: ExportedProgram) -> Any:
        """Tag the nodes, then tell what was done."""
        ranges = {**exported_program.range_constraints, **self._ranges}
        judge = _Judge(exported_program, self._excluded, ranges)
        tags = {}
        for region in _propose(exported_program, judge):
            nodes = list(region.nodes)
            if not any(judge.computes(node) for node in nodes):
                continue
            tag = f"onednn{region.id}"
            tags[tag] = self.delegation_spec
            for node in nodes:
                node.meta["delegation_tag"] = tag
        tag_constant_data(exported_program)
        self._on_partition(exported_program, lambda node: judge.refusal(node) or _ALONE)
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)


def _propose(program: ExportedProgram, judge: _Judge) -> list[Any]:
    """Regions of which each knows its sizes."""
    while True:
        proposer = CapabilityBasedPartitioner(program.graph_module, judge, allows_single_node_partition=True)
        regions: list[Any] = proposer.propose_partitions()
        unfollowed = [node for region in regions for node in find_unfollowed(region.nodes)]
        if not unfollowed:
            return regions
        judge.leave(unfollowed)


class _Judge(OperatorSupportBase):
    """Tries each operator on a builder of its own, and asks oneDNN about what came out."""

    def __init__(self, program: ExportedProgram, excluded: frozenset[str], ranges: Mapping[Any, Any]) -> None:
        self._excluded = excluded
        self._constants = constant_readers(program)
        self._ranges = ranges
        self._known: dict[Node, Refusal | None] = {}
        self._computing: set[Node] = set()
        # Networks repeat themselves, and the library takes a hundred times longer to answer than a look here.
        self._answers: dict[Hashable, bool] = {}

    def is_node_supported(self, submodules: Any, node: Node) -> bool:
        """For `CapabilityBasedPartitioner`."""
        del submodules
        if node.op != "call_function":
            return False
        source = node if is_operator(node) else node.args[0]
        return self.refusal(source) is None  # type: ignore[arg-type]

    def refusal(self, node: Node) -> Refusal | None:
        """Why an operator is not taken, or None."""
        if node not in self._known:
            self._known[node] = self._judge(node)
        return self._known[node]

    def leave(self, nodes: Iterable[Node]) -> None:
        """Refuse operators that bring in sizes which their region cannot know."""
        for node in nodes:
            source: Any = node if is_operator(node) else node.args[0]
            self._known[source] = _UNFOLLOWED

    def computes(self, node: Node) -> bool:
        """Whether a taken operator is more than a view or a constant."""
        return node in self._computing

    def _judge(self, node: Node) -> Refusal | None:
        name = operator_name(node)
        if is_excluded(node, self._excluded):
            return EXCLUDED
        if not _tensors(node.meta.get("val")):
            reason = "it computes a size, which stays with the runtime: no region gives out numbers"
            return Refusal("dynamic_shape", reason, workaround=SIZES_ARE_CHEAP)
        if any(_has_found_size(item) for item in (node, *node.all_input_nodes)):
            reason = "it has a size that only a run finds, which may be 0: a region computes its sizes from its inputs'"
            return Refusal("dynamic_shape", reason)
        if any(map(self._may_be_empty, (node, *node.all_input_nodes))):
            return Refusal("dynamic_shape", "oneDNN takes no empty tensor, and within its bounds one of these may be")
        if name not in OPERATORS:
            return refuse_unknown(name, f"oneDNN has no operator {name}")
        builder = RegionBuilder(constants=self._constants, free_input=free_input)
        try:
            if name not in QUANTIZED_OPERATORS:
                for value in _tensors(node.meta.get("val"))[:1]:
                    make_value(value)
            builder.lower(node, OPERATORS[name])
            if name in QUANTIZED_OPERATORS:
                # What makes nothing where its readers compute with integers does so where they do not.
                builder.result(node)
        except Refused as refused:
            return Refusal(refused.code, refused.reason)
        operations = [step for step in builder.steps if isinstance(step, Operation)]
        # Rows of a table alone are as quick with ExecuTorch's kernel.
        if any(step.kind != EMBEDDING for step in operations) or name in QUANTIZED_OPERATORS:
            self._computing.add(node)
        if not self._runs(operations):
            return Refusal("attribute", f"the installed oneDNN does not run {name} like this")
        return None

    def _may_be_empty(self, node: Node) -> bool:
        sizes = (size for tensor in _tensors(node.meta.get("val")) for size in tensor.shape)
        return any(may_be_none(size, self._ranges) for size in sizes)

    def _runs(self, operations: list[Operation]) -> bool:
        """Whether the library runs these operators."""
        asked = _describe(operations)
        if asked not in self._answers:
            self._answers[asked] = all(found.supported for found in graph_api.partition(operations))
        return self._answers[asked]


def _describe(operations: list[Operation]) -> Hashable:
    """What the library's answer depends on."""
    numbers: dict[Value, int] = {}

    def describe(value: Value) -> Hashable:
        return (
            numbers.setdefault(value, len(numbers)),
            numbers.setdefault(value.root, len(numbers)),
            value.dtype,
            tuple(size if isinstance(size, int) else None for size in value.shape),
            value.is_constant,
            value.argument is None,
        )

    return tuple(
        (step.kind, repr(sorted(step.attributes.items())), tuple(map(describe, (*step.inputs, step.output))))
        for step in operations
    )


def _has_found_size(node: Node) -> bool:
    return any(has_free_unbacked_symbols(tensor) for tensor in _tensors(node.meta.get("val")))


def _tensors(value: Any) -> list[Any]:
    values = value if isinstance(value, (list, tuple)) else [value]
    return [item for item in values if isinstance(item, torch.Tensor)]
