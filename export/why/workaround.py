"""What to do about an operator that a target left out: a sentence, or the name of a rewrite that removes it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgex.delegates.plan import Fallback


@dataclass(frozen=True)
class _Rule:
    """What helps against one kind of fallback.

    Attributes:
        targets: Pattern of the targets' names.
        op: Pattern of the operator's name.
        reason: Pattern found in the reason; "" goes with all.
        sentence: What to do.
        rewrite: The rewrite that does it; None where the user has to.
    """

    targets: str
    op: str
    reason: str
    sentence: str
    rewrite: str | None = None


_ATEN = r"aten\."

# The first that fits counts.
_RULES = (
    _Rule("xnnpack", _ATEN + r"mean\.dim", "keepdim", "average with keepdim=True, then flatten(1)"),
    _Rule("xnnpack", _ATEN + r"mean\.dim", "dimension", "give the tensor four dimensions and average over (2, 3)"),
    _Rule("xnnpack", _ATEN + r"(add|sub)", "alpha", "write x + alpha * y as two operations", "split_alpha"),
    _Rule(
        "xnnpack|onednn",
        _ATEN + r"(arange|full|ones|zeros|tril|triu|where|logical_not|ge|le|lt|gt|eq)\b.*",
        "no operator",
        "what depends on no input belongs in __init__, in a buffer",
        "fold_literals",
    ),
    _Rule("xnnpack", _ATEN + r"native_layer_norm", "", "it runs in ExecuTorch's own kernel; --target onednn fuses it"),
    _Rule("xnnpack", _ATEN + r"embedding", "", "a table look-up costs little: nothing to do"),
    _Rule(".*", _ATEN + r"sym_\w+", "", "the runtime computes sizes itself, at next to no cost: nothing to do"),
    _Rule(
        "xnnpack",
        _ATEN + r"(view_copy|slice_copy)",
        "known only when",
        "make the dimension static, or leave one size to be inferred (-1)",
    ),
    _Rule("xnnpack", _ATEN + r"_?softmax", "last dimension", "move the dimension to the end first: x.transpose(d, -1)"),
    _Rule("xnnpack", _ATEN + r"(bmm|mm|addmm|linear|convolution)", "constant weight", "make the weight a parameter"),
    _Rule("xnnpack", _ATEN + r"pow", "power 2", "write x * x * x for a small whole power"),
    _Rule("onnx-.*", _ATEN + r".*", "opset", "choose another with --option opset=…"),
)

_BY_CODE = {
    "dynamic_shape": "make the dimension static: leave --dynamic out for it",
    "non_constant_weight": "make it a parameter or a buffer that forward does not change",
    "no_kernel": "replace it by simpler operators, or choose another target",
}


def find_workaround(target: str, fallback: Fallback, *, rewrites_on: bool) -> tuple[str | None, str | None]:
    """What helps against a fallback.

    Args:
        target: Who left it out.
        fallback: What was left out.
        rewrites_on: Whether rewrites were applied already; then none is offered.

    Returns:
        A sentence, or None; and the name of the rewrite that does it, or None.
    """
    for rule in _RULES:
        if (
            re.fullmatch(rule.targets, target)
            and re.match(rule.op, fallback.op)
            and re.search(rule.reason, fallback.reason)
        ):
            return rule.sentence, None if rewrites_on else rule.rewrite
    return _BY_CODE.get(fallback.code), None
