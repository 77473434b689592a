"""What to do about operators that a target does not run: only what is true of them."""

from __future__ import annotations

from collections.abc import Iterable

# Operators of PyTorch's own; others exist in the user's Python only, and an artifact runs without that.
_OWN = ("aten.", "prims.", "quantized_decomposed.")


# What to do about those of torchvision that are not written in PyTorch's own.
_DETECTION = {
    "torchvision.nms": "let torchvision.ops.nms look at 256 boxes at most (scores.topk(256)), or return boxes and "
    "scores and suppress outside of the artifact",
    "torchvision.roi_align": "give torchvision.ops.roi_align sampling_ratio=2: without one the sizes of the "
    "regions decide how many samples are taken",
    "torchvision.roi_pool": "use torchvision.ops.roi_align with sampling_ratio=2",
    "torchvision.ps_roi_align": "use torchvision.ops.roi_align with sampling_ratio=2",
    "torchvision.ps_roi_pool": "use torchvision.ops.roi_align with sampling_ratio=2",
}


def name_other_targets(operators: Iterable[str], targets: str) -> str:
    """What to do about operators that a target does not run, a phrase.

    Args:
        operators: Their names, for example `aten.sort.default`.
        targets: Targets by comma that may take PyTorch's own operators.
    """
    operators = list(operators)
    known = [advice for name, advice in _DETECTION.items() if any(one.startswith(f"{name}.") for one in operators)]
    if known:
        return "; ".join(dict.fromkeys(known))
    foreign = [name for name in operators if not name.startswith(_OWN) and "." in name]
    if foreign:
        return (
            f"write {', '.join(dict.fromkeys(foreign))} in PyTorch's own operators: an artifact runs without the "
            "Python that defines others, on every target"
        )
    return f"rewrite what is at these lines, or see with `edgex why MODEL -t {targets}` which other target takes it"
