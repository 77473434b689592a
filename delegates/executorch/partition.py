"""What a partitioner did to an edge graph, operator by operator, and the plan that says so."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from edgex.delegates.executorch.exir import branches_of, captured_name, debug_handle_of, is_excluded, operator_name
from edgex.delegates.executorch.kernels import missing_kernel
from edgex.delegates.executorch.refusals import Refusal, Refuse
from edgex.delegates.graph.provenance import is_operator, module_path_of, source_of
from edgex.delegates.graph.recurrences.steps import is_recurrence
from edgex.delegates.graph.values import largest_size
from edgex.delegates.graph.work import add_flops, count_flops
from edgex.delegates.plan import Fallback, PartitionPlan, group_fallbacks

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

# From so many elements on, reading them one by one takes 3 ms.
_MANY_PLACED = 100_000


@dataclass(frozen=True)
class EdgeOperator:
    """One operator of the edge graph.

    Attributes:
        node: The node's name; nodes of a branch of `torch.cond` as `branch.node`.
        op: For example `aten.cumsum.default`.
        handle: ExecuTorch's debug handle.
        module: Path of the module that ran it.
        source: The user's `file.py:line`.
        flops: Floating-point operations, None where unknown.
        region: Which call into the backend it went into, counted from 0 in the order of the regions' first
            operators; None where it was left out.
        refusal: Why it was left out.
        captured: Name of the captured program's node that it comes from; None where none is known.
        placed: How many elements at most it reads each at a place that the runtime computes for it.
    """

    node: str
    op: str
    handle: int | None
    module: str | None
    source: str | None
    flops: int | None
    region: int | None
    refusal: Refusal | None
    captured: str | None = None
    placed: int = 0


def read_partition(
    program: ExportedProgram, source_root: Path, refuse: Refuse, excluded: Collection[str] = ()
) -> tuple[EdgeOperator, ...]:
    """Read an edge graph whose nodes the partitioner has tagged.

    Args:
        program: The edge program; `delegation_tag` in a node's meta names its region.
        source_root: Folder of the user's file.
        refuse: Tells why the backend left out a node of the top graph.
        excluded: Captured nodes that stay out of the backend; of a recurrence, the loop's step.
    """
    regions: dict[str, int] = {}
    operators = []
    for node in program.graph.nodes:
        if not is_operator(node):
            continue
        tag = node.meta.get("delegation_tag")
        if is_recurrence(node) and not is_excluded(node, excluded):
            tag = node.name  # its step becomes a region of its own: `loops`
        region = None if tag is None else regions.setdefault(tag, len(regions))
        operators.append(_read_node(node, node.name, source_root, region, refuse))
    for name, node in _branch_nodes(program.graph_module, ""):
        operators.append(_read_node(node, name, source_root, None, _refuse_branch))
    return tuple(operators)


def assign_regions(operators: Iterable[EdgeOperator], regions: Mapping[str, int]) -> tuple[EdgeOperator, ...]:
    """The operators as the lowered program has them: `regions` is the region of each node that is no longer there."""
    return tuple(dataclasses.replace(operator, region=regions.get(operator.node)) for operator in operators)


def make_plan(operators: tuple[EdgeOperator, ...]) -> PartitionPlan:
    """The plan of these operators."""
    taken = [operator for operator in operators if operator.region is not None]
    fallbacks = [
        Fallback(
            item.op, 1, item.refusal.code, item.refusal.reason, item.source, item.refusal.fatal,
            () if item.module is None else (item.module,), item.flops, item.refusal.workaround, item.refusal.rewrite,
        )
        for item in operators
        if item.region is None and item.refusal is not None
    ]  # fmt: skip
    total_flops = add_flops(operator.flops for operator in operators)
    return PartitionPlan(
        delegated_ops=len(taken),
        total_ops=len(operators),
        delegate_calls=len({operator.region for operator in taken}),
        fallbacks=group_fallbacks(fallbacks),
        # Where something has a count, what was taken has one too, if only 0.
        delegated_flops=None if total_flops is None else add_flops(operator.flops for operator in taken) or 0,
        total_flops=total_flops,
    )


def _read_node(node: Node, name: str, source_root: Path, region: int | None, refuse: Refuse) -> EdgeOperator:
    refusal = None
    if region is None:
        gap = missing_kernel(node)
        refusal = refuse(node) if gap is None else Refusal("no_kernel", gap, fatal=True)
    return EdgeOperator(
        node=name,
        op=operator_name(node),
        handle=debug_handle_of(node),
        module=module_path_of(node),
        source=source_of(node, source_root),
        flops=count_flops(node),
        region=region,
        refusal=refusal,
        captured=captured_name(node),
        placed=_placed(node) if region is None else 0,
    )


def describe_slow_reads(operators: Iterable[EdgeOperator]) -> tuple[str, ...]:
    """A warning that names the operators that read many elements one by one; none where there are none."""
    slow = [item for item in operators if item.placed >= _MANY_PLACED]
    if not slow:
        return ()
    names = ", ".join(dict.fromkeys(f"{item.op} at {item.source or 'no line'}" for item in slow))
    most = max(item.placed for item in slow)
    return (
        f"{names}: ExecuTorch's kernel computes the place of each element, up to {most:,}, about 30 ns each; "
        "one list of numbers along one dimension, x[numbers], is copied row by row",
    )


def _placed(node: Node) -> int:
    """The elements of an `index` by several numbers a place, which ExecuTorch's kernel does not copy row by row."""
    if operator_name(node) != "aten.index.Tensor":
        return 0
    numbers = [index.meta["val"] for index in node.args[1] if index is not None]  # type: ignore[union-attr]
    if len(numbers) == 1 and numbers[0].dim() == 1:
        return 0
    # Of a size without a bound nothing is known.
    return prod(largest_size(size) or 1 for size in node.meta["val"].shape)


def _branch_nodes(graph_module: object, prefix: str) -> Iterator[tuple[str, Node]]:
    for name, module in branches_of(graph_module):
        for node in module.graph.nodes:
            if is_operator(node):
                yield f"{prefix}{name}.{node.name}", node
        yield from _branch_nodes(module, f"{prefix}{name}.")


def _refuse_branch(node: Node) -> Refusal:
    del node
    return Refusal("attribute", "it is inside a branch of torch.cond or a loop, where no partitioner looks")
