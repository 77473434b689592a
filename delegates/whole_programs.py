"""For targets whose converter takes a program whole or not at all: the plan, and one refusal that names everything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.provenance import module_path_of, source_of
from edgex.delegates.graph.work import count_flops, sum_flops
from edgex.delegates.other_targets import name_other_targets
from edgex.delegates.plan import Fallback, PartitionPlan, ReasonCode, group_fallbacks
from edgex.errors import LoweringError
from edgex.runtime.artifact.specs import Dim, TensorSpec

if TYPE_CHECKING:
    from torch.fx import Node

# What takes most of PyTorch's own operators; see `name_other_targets`.
OTHERS = "xnnpack,onnx-cpu,onednn"
# Rewrites into operators that every converter has: there is top-k and no sort, no complex number to rely on, pooling
# over two dimensions only; attention without a key gives NaN or worse.
WHOLE_REWRITES = (
    *(
        "return_writes",
        "fill_memory",
        "join_steps",
        "join_writes",
        "split_complex",
        "keep_planes",
        "guard_empty_rows",
        "sort_by_topk",
        "scatter_by_sums",
        "scatter_extremes",
    ),
    *("search_by_comparisons", "write_max_pools", "write_average_pools", "write_batch_statistics", "write_experts"),
    *("write_scans", "write_elementary", "write_special_functions", "write_small_matrices", "write_distances"),
    *(
        "fold_factories",
        "flatten_conv3d",
        "fill_dilation",
        "write_uneven_averages",
        "write_promotions",
        "divide_as_eager",
        "slice_diagonals",
        "write_masked",
        "write_flex_attention",
    ),
)
# Dtypes whose arrays NumPy cannot hand over.
_NO_SIGNATURE = ("complex64", "complex128", "bfloat16")


@dataclass(frozen=True)
class Refusal:
    """Why a converter does not take an operator: a key of `REASON_CODES`, and a sentence."""

    code: ReasonCode
    reason: str


def plan_whole(nodes: Iterable[Node], refused: Mapping[Node, Refusal], source_root: Path) -> PartitionPlan:
    """A plan in which everything is one region, or none where something is refused.

    Args:
        nodes: Operators of the graph that the converter reads.
        refused: Those that it does not take.
        source_root: Folder of the user's file.
    """
    everything = list(nodes)
    left = [_left_out(node, refused[node], source_root) for node in everything if node in refused]
    taken = [node for node in everything if node not in refused]
    total_flops = sum_flops(everything)
    return PartitionPlan(
        delegated_ops=len(taken),
        total_ops=len(everything),
        delegate_calls=0 if left else 1,
        fallbacks=group_fallbacks(left),
        delegated_flops=None if total_flops is None else sum_flops(taken) or 0,
        total_flops=total_flops,
    )


def _left_out(node: Node, why: Refusal, source_root: Path) -> Fallback:
    module = module_path_of(node)
    modules = () if module is None else (module,)
    source = source_of(node, source_root)
    return Fallback(str(node.target), 1, why.code, why.reason, source, True, modules, count_flops(node))


def refuse_program(taker: str, plan: PartitionPlan) -> LoweringError:
    """One error that names every operator that is in the way, with its source line.

    Args:
        taker: Who does not take them, for example `litert-torch`.
        plan: It has fallbacks.
    """
    lines = []
    for left in plan.fallbacks:
        place = f"{left.source}: " if left.source else ""
        times = f" ({left.count} times)" if left.count > 1 else ""
        lines.append(f"{place}{left.op}{times}: {left.reason}")
    names = list(dict.fromkeys(left.op for left in plan.fallbacks))
    return LoweringError(
        f"{taker} does not convert this model: {', '.join(names)}",
        next((left.source for left in plan.fallbacks if left.source), None),
        name_other_targets(names, OTHERS),
        why="\n".join(lines),
    )


def refuse_dynamic(taker: str, why: str, inputs: Sequence[TensorSpec]) -> LoweringError:
    """Every dynamic dimension, and the flags that fix them.

    Args:
        taker: Who converts static shapes only.
        why: Its reason, a sentence.
        inputs: The program's.
    """
    lines = [why]
    for spec in inputs:
        dims = [(axis, dim) for axis, dim in enumerate(spec.shape) if isinstance(dim, Dim)]
        lines += [f"input {spec.name}: dimension {axis} is {dim}" for axis, dim in dims]
    return LoweringError(
        f"{taker} converts fixed sizes, and this model has dynamic ones",
        fix=suggest_sizes(inputs),
        why="\n".join(lines),
    )


def suggest_sizes(inputs: Sequence[TensorSpec]) -> str:
    """What to export instead of dynamic dimensions: a method for each of some sizes, with the flags that say so.

    Args:
        inputs: The program's; those that vary are named, with their smallest and largest size.
    """
    dims = [(spec.name, axis, dim) for spec in inputs for axis, dim in enumerate(spec.shape) if isinstance(dim, Dim)]
    flags, told = [], set[str]()
    for name, axis, dim in dims:
        shared = sum(other.name == dim.name for *_, other in dims) > 1
        sizes = ",".join(map(str, dict.fromkeys((max(1, dim.min), dim.max))))
        label = f"{dim.name}=" if shared else ""
        flags.append(f"--sizes {name}:{axis}={label.rstrip('=') if dim.name in told else label + sizes}")
        told |= {dim.name} if shared else set()
    return (
        "leave --dynamic and dynamic_shapes out, and name the sizes that you need, each of which becomes a method that "
        f"shares the weights: {' '.join(flags)}"
    )


def refuse_signature(taker: str, specs: Iterable[TensorSpec], others: Sequence[str] = ()) -> LoweringError | None:
    """The error for inputs and outputs whose dtype has no NumPy array; None where there are none.

    Args:
        taker: Who would hand them over.
        specs: The inputs and outputs.
        others: Further dtypes that it does not have.
    """
    wrong = [f"{spec.name} is {spec.dtype}" for spec in specs if spec.dtype in (*_NO_SIGNATURE, *others)]
    if not wrong:
        return None
    return LoweringError(
        f"{taker} hands over no such inputs and outputs: {', '.join(wrong)}", fix="return its real parts, or float32"
    )


def has_varying_size(node: Node) -> bool:
    """Whether something that a node makes has a size that is not a number."""
    import torch

    found: list[Any] = [node.meta.get("val")]
    while found:
        value = found.pop()
        if isinstance(value, (list, tuple)):
            found += value
        elif isinstance(value, torch.Tensor):
            found += [size for size in value.shape if not isinstance(size, int)]
        elif isinstance(value, torch.SymInt):
            return True
    return False


def first_sentence(message: str) -> str:
    """The first line of a converter's message that says something."""
    return next((line.strip() for line in message.splitlines() if line.strip()), "no reason given")
