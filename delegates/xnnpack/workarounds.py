"""What XNNPACK's partitioner would take though its result is not PyTorch's, or though lowering it fails afterwards.

Measured with ExecuTorch 1.5.1; each entry has a test that fails without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Node

_IMAGE_RANK = 4

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


def refuse_wrong(node: Node) -> str | None:
    """Why XNNPACK may not have an operator that its partitioner takes; None where it may."""
    check = _CHECKS.get(_name(node))
    return None if check is None else check(node)


def _maximum(node: Node) -> str | None:
    dim, keepdim = node.args[1], len(node.args) > 2 and node.args[2]
    rank = len(_shape(node.args[0]))
    if keepdim and rank == _IMAGE_RANK and dim in (2, 3, -1, -2):
        return None if dim in (2, 3) else f"its maximum is taken over dim 2 or 3 by those numbers only, not dim={dim}"
    return f"its maximum keeps dimension 2 or 3 of 4 only, not dim={dim}, keepdim={bool(keepdim)} of {rank} dimensions"


def _prelu(node: Node) -> str | None:
    rank = len(_shape(node.args[0]))
    return None if rank == _IMAGE_RANK else f"its PReLU takes images of 4 dimensions only, not of {rank}"


def _bilinear(node: Node) -> str | None:
    """XNNPACK takes the scale from the sizes, PyTorch a given one as it is, also where they differ by rounding."""
    scales: Any = node.args[3] if len(node.args) > 3 else None
    if scales is None or node.args[2]:
        return None
    ratios = [out / size for out, size in zip(_shape(node)[-2:], _shape(node.args[0])[-2:], strict=True)]
    if all(math.isclose(scale, ratio) for scale, ratio in zip(scales, ratios, strict=True)):
        return None
    return f"its bilinear resize scales by the sizes {ratios}, not by {list(scales)}"


def _root(node: Node) -> str | None:
    """Zero under `rsqrt` is NaN there instead of infinity; with something positive added there is no zero."""
    operand = node.args[0]
    return None if _is_positive(operand) else "its rsqrt of 0 is NaN, not infinity, and nothing keeps 0 away"


def _square_root(node: Node) -> str | None:
    return None if _is_positive(node.args[0]) else "its square roots near 0 and infinity are wrong"


def _is_positive(value: Any) -> bool:
    """Whether a value is a sum of a positive number and what is never below zero."""
    if not isinstance(value, Node) or _name(value) not in ("add.Tensor", "clamp.default"):
        return False
    if _name(value) == "clamp.default":
        return isinstance(least := value.args[1], int | float) and least > 0
    parts = value.args[:2]
    return any(_number(part) > 0 for part in parts) and any(_is_not_negative(part) for part in parts)


def _number(value: Any) -> float:
    """A number, or a constant that was made of one; NaN for anything else."""
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, Node) and _name(value) in ("full.default", "full_like.default"):
        filled = value.args[1]
        return float(filled) if isinstance(filled, int | float) else math.nan
    return math.nan


def _is_not_negative(value: Any) -> bool:
    if not isinstance(value, Node):
        return False
    name = _name(value)
    if name == "mean.dim" or name.startswith(("view_copy", "sum.dim", "unsqueeze_copy", "squeeze_copy")):
        return _is_not_negative(value.args[0])
    if name in ("var.correction", "var.dim"):
        return True
    if name == "pow.Tensor_Scalar":
        return isinstance(power := value.args[1], int | float) and power % 2 == 0
    if name == "mul.Tensor":
        return value.args[0] is value.args[1]
    return name.partition(".")[0] in _NOT_NEGATIVE


def _name(node: Any) -> str:
    """`mean.dim` for the operator of a node, edge or ATen."""
    return str(getattr(node.target, "__name__", node.target)).removeprefix("aten.")


def _shape(value: Any) -> torch.Size:
    found = value.meta["val"]
    shape: torch.Size = (found[0] if isinstance(found, list | tuple) else found).shape
    return shape


_CHECKS: Mapping[str, Callable[[Node], str | None]] = {
    "max.dim": _maximum,
    "prelu.default": _prelu,
    "upsample_bilinear2d.vec": _bilinear,
    "rsqrt.default": _root,
    "sqrt.default": _square_root,
}
