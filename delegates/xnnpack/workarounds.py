"""What XNNPACK's partitioner would take though its result is not PyTorch's, or though lowering it fails afterwards.

Measured with ExecuTorch 1.5.1; each entry has a test that fails without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from edgex.delegates.graph.schema import named_arguments
from edgex.delegates.graph.torch_internals import FakeTensor

_IMAGE_RANK = 4
# `XNN_MAX_TENSOR_DIMS`; a program with a tensor of more fails when it is loaded.
_MOST_DIMENSIONS = 6

# Their result is not below zero, whatever their input.
_NOT_NEGATIVE = ("abs", "exp", "relu", "sigmoid", "square", "sqrt", "_softmax")


# For `KnowsSpecialValues`.
SPECIAL_VALUES: Mapping[str, str] = {
    "aten.exp.default": "XNNPACK's exponential of NaN is 0",
    "aten.softplus.default": "XNNPACK's exponential of NaN is 0",
    "aten.log_sigmoid.default": "XNNPACK's exponential of NaN is 0",
    "aten.elu.default": "XNNPACK's exponential of NaN is 0",
    "aten.max_pool2d.default": "XNNPACK's maximum drops NaN",
    "aten.maximum.default": "XNNPACK's maximum drops NaN",
    "aten.minimum.default": "XNNPACK's minimum drops NaN",
}


def refuse_wrong(node: Node, program: ExportedProgram) -> str | None:
    """Why XNNPACK may not have an operator that its partitioner takes; None where it may."""
    rank = max((len(_shape(value)) for value in (node, *node.all_input_nodes) if _is_tensor(value)), default=0)
    if rank > _MOST_DIMENSIONS:
        return f"its tensors have {_MOST_DIMENSIONS} dimensions at most, not {rank}"
    check = _CHECKS.get(_name(node))
    return None if check is None else check(node, program)


def _maximum(node: Node, _: ExportedProgram) -> str | None:
    dim, keepdim = node.args[1], len(node.args) > 2 and node.args[2]
    rank = len(_shape(node.args[0]))
    if keepdim and rank == _IMAGE_RANK and dim in (2, 3, -1, -2):
        return None if dim in (2, 3) else f"its maximum is taken over dim 2 or 3 by those numbers only, not dim={dim}"
    return f"its maximum keeps dimension 2 or 3 of 4 only, not dim={dim}, keepdim={bool(keepdim)} of {rank} dimensions"


def _prelu(node: Node, _: ExportedProgram) -> str | None:
    rank = len(_shape(node.args[0]))
    return None if rank == _IMAGE_RANK else f"its PReLU takes images of 4 dimensions only, not of {rank}"


def _bilinear(node: Node, _: ExportedProgram) -> str | None:
    """XNNPACK takes the scale from the sizes, PyTorch a given one as it is, also where they differ by rounding."""
    scales: Any = node.args[3] if len(node.args) > 3 else None
    if scales is None or node.args[2]:
        return None
    ratios = [out / size for out, size in zip(_shape(node)[-2:], _shape(node.args[0])[-2:], strict=True)]
    if all(math.isclose(scale, ratio) for scale, ratio in zip(scales, ratios, strict=True)):
        return None
    return f"its bilinear resize scales by the sizes {ratios}, not by {list(scales)}"


def _elu(node: Node, _: ExportedProgram) -> str | None:
    given = named_arguments(node)
    scales = given["scale"], given["input_scale"]
    return None if scales == (1, 1) else f"its ELU has no scales of its own, here {scales}"


def _reshaped(node: Node, _: ExportedProgram) -> str | None:
    """What ExecuTorch writes as a reshape behind the partitioner, and gives up where two sizes vary."""
    shape = _shape(node)
    varying = sum(not isinstance(size, int) for size in shape)
    return None if varying <= 1 else f"its reshape finds one size at most when it runs, not {varying} of {list(shape)}"


def _convolution(node: Node, program: ExportedProgram) -> str | None:
    """Over sequences it stands between two reshapes."""
    is_image = len(_shape(node)) == _IMAGE_RANK
    return None if is_image else _reshaped(node, program) or _reshaped(node.all_input_nodes[0], program)


# Nothing is its negative by accident; `cos(x) + 1` may well be zero.
_MOST_GUARD = 1e-3


def _root(node: Node, program: ExportedProgram) -> str | None:
    """Zero under `rsqrt` is NaN there instead of infinity; with something positive added there is no zero."""
    return (
        None if _is_positive(node.args[0], program) else "its rsqrt of 0 is NaN, not infinity, and nothing keeps 0 away"
    )


def _square_root(node: Node, program: ExportedProgram) -> str | None:
    return None if _is_positive(node.args[0], program) else "its square roots near 0 and infinity are wrong"


def _is_positive(value: Any, program: ExportedProgram) -> bool:
    """Whether a value is a sum of a positive number and what is never below zero, or of one that is there to guard."""
    if not isinstance(value, Node) or _name(value) not in ("add.Tensor", "clamp.default"):
        return False
    if _name(value) == "clamp.default":
        return isinstance(least := value.args[1], int | float) and least > 0
    parts = value.args[:2]
    if any(_is_guard(part, other, program) for part, other in (parts, parts[::-1])):
        return True
    return any(_least(part, program) > 0 for part in parts) and any(_is_not_negative(part, program) for part in parts)


def _is_guard(part: Any, other: Any, program: ExportedProgram) -> bool:
    """Whether a summand is a little that keeps a root from 0, and the other is not bounded to be its negative."""
    if isinstance(other, Node) and _name(other) == "clamp.default" and other.args[1] not in (None, 0):
        return False
    single = not isinstance(part, Node) or part.meta["val"].numel() == 1 or _name(part).startswith("full")
    return single and 0 < _least(part, program) <= _MOST_GUARD


def _least(value: Any, program: ExportedProgram) -> float:
    """A number, or the least element of a constant; NaN for anything else."""
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, Node):
        return math.nan
    if _name(value) in ("full.default", "full_like.default"):
        filled = value.args[1]
        return float(filled) if isinstance(filled, int | float) else math.nan
    signature = program.graph_signature
    constants = {
        **signature.inputs_to_lifted_tensor_constants, **signature.inputs_to_buffers, **signature.inputs_to_parameters
    }  # fmt: skip
    name = constants.get(value.name, "")
    found = program.constants.get(name, program.state_dict.get(name))
    if isinstance(found, FakeTensor):  # weights without values (`edgex why`), and numbers that lowering made tensors of
        found = found.constant
    known = isinstance(found, torch.Tensor) and not found.is_meta and name not in signature.buffers_to_mutate.values()
    return float(found.min()) if known and found.numel() else math.nan


def _is_not_negative(value: Any, program: ExportedProgram) -> bool:
    if not isinstance(value, Node):
        return False
    name = _name(value)
    if name in ("convolution.default", "linear.default"):  # as means over channels and along rows are written
        weighs = len(value.args) < 3 or value.args[2] is None
        weighs = weighs and _least(value.args[1], program) >= 0
        return weighs and _is_not_negative(value.args[0], program)
    if name == "mean.dim" or name.startswith(("view_copy", "sum.dim", "unsqueeze_copy", "squeeze_copy")):
        return _is_not_negative(value.args[0], program)
    if name in ("var.correction", "var.dim"):
        return True
    if name == "pow.Tensor_Scalar":
        return isinstance(power := value.args[1], int | float) and power % 2 == 0
    if name == "mul.Tensor":
        one, other = value.args[:2]
        scaled = any(_least(factor, program) >= 0 for factor in (one, other))
        return one is other or (scaled and any(_is_not_negative(factor, program) for factor in (one, other)))
    return name.partition(".")[0] in _NOT_NEGATIVE


def _name(node: Any) -> str:
    """`mean.dim` for the operator of a node, edge or ATen."""
    return str(getattr(node.target, "__name__", node.target)).removeprefix("aten.")


def _is_tensor(node: Node) -> bool:
    found = node.meta.get("val")
    return isinstance(found[0] if isinstance(found, list | tuple) and found else found, torch.Tensor)


def _shape(value: Any) -> torch.Size:
    found = value.meta["val"]
    shape: torch.Size = (found[0] if isinstance(found, list | tuple) else found).shape
    return shape


_CHECKS: Mapping[str, Callable[[Node, ExportedProgram], str | None]] = {
    "max.dim": _maximum,
    "prelu.default": _prelu,
    "elu.default": _elu,
    "upsample_bilinear2d.vec": _bilinear,
    "rsqrt.default": _root,
    "sqrt.default": _square_root,
    "unsqueeze_copy.default": _reshaped,
    "convolution.default": _convolution,
}
