"""Which operators nothing in ExecuTorch's runtime can run, found before anything is written.

A .pte with such an operator builds, and then fails to load with error 0x14. The registry of the installed runtime
knows its kernels by the names of out variants (`aten::sort.values`). Which dtypes and sizes a kernel takes it does not
tell; three limits are met often enough to be known here, and for the rest only running the program is proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgex.delegates.executorch.exir import kernel_name
from edgex.delegates.graph.recurrences.steps import is_recurrence
from edgex.delegates.graph.schema import higher_order_name
from edgex.delegates.other_targets import name_other_targets
from edgex.delegates.plan import Fallback
from edgex.errors import LoweringError
from edgex.runtime.engines.executorch.binding import operator_names

if TYPE_CHECKING:
    from torch.fx import Node

_SHOWN = 20
_CONVOLUTION_RANK = 4
# Of torch's control flow, what ExecuTorch 1.5 emits; anything else raises an InternalError there.
_CONTROL_FLOW = ("cond", "map_impl", "scan")


def missing_kernel(node: Node) -> str | None:
    """Why the runtime cannot run a node that no backend takes: one sentence; None where it can."""
    if is_recurrence(node):  # it becomes a loop
        return None
    control = higher_order_name(node)
    if control is not None and control not in (*_CONTROL_FLOW, "executorch_call_delegate"):
        return f"no backend takes it, and ExecuTorch has the control flow of {', '.join(_CONTROL_FLOW)} alone"
    try:
        name = kernel_name(node)
    except LookupError:
        return "no backend takes it, and the operator has no out variant that a kernel of ExecuTorch could implement"
    if name is None:
        return None
    if name not in operator_names():
        return f"no backend takes it, and ExecuTorch's runtime has no kernel {name}"
    if name == "aten::convolution.out" and (rank := _rank(node.all_input_nodes[0])) > _CONVOLUTION_RANK:
        return f"no backend takes it, and ExecuTorch's kernel convolves over 1 or 2 dimensions, not over {rank - 2}"
    if name == "aten::nonzero.out" and _rank(node.all_input_nodes[0]) > 1:
        return (
            "no backend takes it, and ExecuTorch's kernel stores the places row by row where PyTorch's program says "
            "column by column: they would be read wrongly; nonzero of one dimension is right"
        )
    if name == "aten::_fft_r2c.out" and not node.args[3]:
        return (
            "no backend takes it, and ExecuTorch's kernel computes the half of a spectrum that torch.fft.rfft gives, "
            "not all of it; real and imaginary parts as outputs (torch.view_as_real) need no such kernel"
        )
    return None


def refuse_missing(fatal: Sequence[Fallback], target: str) -> None:
    """Raise for operators that nothing can run, naming all of them at once.

    Raises:
        LoweringError: There are some.
    """
    if not fatal:
        return
    names = sorted({fallback.op for fallback in fatal})
    lines = [f"{item.op} at {item.source or 'unknown line'}: {item.reason}" for item in fatal[:_SHOWN]]
    if len(fatal) > _SHOWN:
        lines.append(f"and {len(fatal) - _SHOWN} more")
    raise LoweringError(
        f"{target} cannot run {', '.join(names)}",
        next((item.source for item in fatal if item.source), None),
        name_other_targets(names, "onnx-cpu,reference"),
        why="\n".join(lines),
    )


def check_emitted(kernels: Sequence[str], target: str) -> None:
    """The same for the finished program, should lowering have brought in an operator of its own.

    Raises:
        LoweringError: A kernel is not in the runtime.
    """
    missing = sorted(set(kernels) - operator_names())
    if missing:
        raise LoweringError(
            f"{target}: the program needs {', '.join(missing)}, which ExecuTorch's runtime does not have",
            fix=name_other_targets((), "onnx-cpu,reference"),
        )


def _rank(node: Node) -> int:
    return len(node.meta["val"].shape)
