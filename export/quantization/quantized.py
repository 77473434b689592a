"""What quantizing makes, and what it leaves in floating point of the operators that matter, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.provenance import is_conversion, is_operator, module_path_of, source_of
from edgex.delegates.graph.recurrences.steps import is_recurrence
from edgex.export.quantization.float_sums import REASON as FLOAT_SUM
from edgex.export.rewrites.editing.building import KEEPS_FLOAT
from edgex.export.rewrites.editing.editor import constant_tensors

if TYPE_CHECKING:
    from torch.fx import Node

# Operators that 8 bits are there for: multiplications with many weights.
_HEAVY = (
    *("conv", "linear", "addmm", "matmul", "bmm", "mm", "baddbmm"),
    *("lstm", "gru", "rnn", "recurrent_steps", "scaled_dot_product"),
)


@dataclass(frozen=True)
class FloatOperator:
    """An operator that stayed in floating point.

    Attributes:
        module: Path of its module; None where no module ran it.
        op: For example `aten.linear.default`.
        reason: One sentence.
        source: The user's `file.py:line`.
        unusual: Whether the user will wonder, and is told in a warning.
    """

    module: str | None
    op: str
    reason: str
    source: str | None
    unusual: bool = True

    def to_json(self) -> dict[str, Any]:
        """An entry of the manifest's `quantization.quantized`."""
        return {"module": self.module, "op": self.op, "reason": self.reason, "source": self.source}


@dataclass(frozen=True)
class Quantized:
    """A quantized program.

    Attributes:
        program: Holds quantize and dequantize operators; `recipe` and `float_modules` are set.
        unquantized: Operators that the recipe is there for and that stayed in floating point.
    """

    program: CapturedProgram
    unquantized: tuple[FloatOperator, ...]


def list_float(
    program: CapturedProgram, keep_float: frozenset[str], excluded: Mapping[str, str]
) -> tuple[FloatOperator, ...]:
    """The heavy operators of which no operand is quantized, in program order.

    Args:
        program: A converted program.
        keep_float: Modules that the user keeps in floating point.
        excluded: Reasons by the names of nodes that were left out.
    """
    constants = constant_tensors(program)
    found = []
    for node in program.exported.graph.nodes:
        if not is_operator(node) or is_conversion(str(node.target)):
            continue
        # Products that a rewrite made of something else are no layers of the user's.
        heavy = _base_name(node).startswith(_HEAVY) and KEEPS_FLOAT not in node.meta
        if node.name not in excluded and not (heavy and not _is_quantized(node)):
            continue
        path, unusual = module_path_of(node), True
        if is_inside(path, keep_float):
            reason, unusual = "kept in floating point on request", False
        elif node.name in excluded:
            # Every transformer has sums that only norms read: listed, but no news.
            reason, unusual = excluded[node.name], excluded[node.name] != FLOAT_SUM
        else:
            reason, unusual = _reason(node, constants)
        found.append(FloatOperator(path, str(node.target), reason, source_of(node, program.source_root), unusual))
    return tuple(found)


def is_inside(path: str | None, modules: frozenset[str]) -> bool:
    """Whether a module path is one of these, or inside of one."""
    return path is not None and any(path == module or path.startswith(f"{module}.") for module in modules)


def _base_name(node: Node) -> str:
    parts = str(node.target).split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def _is_quantized(node: Node) -> bool:
    """Whether it reads a constant through a dequantization: its weight. Values between layers tell nothing."""
    return any(
        ".dequantize" in str(source.target) and source.all_input_nodes[0].op == "placeholder"
        for source in node.all_input_nodes
    )


def _reason(node: Node, constants: Mapping[Node, Any]) -> tuple[str, bool]:
    """Why, and whether that is unusual."""
    if is_recurrence(node):
        return "it is a loop over the steps of a layer, whose products with the state stay in floating point", True
    weights = [source for source in node.all_input_nodes if source in constants]
    if not weights:
        return "both of its factors are computed: there is no constant weight to quantize", False
    return f"the recipe has no form of it with a weight of shape {list(constants[weights[0]].shape)}", True
