"""Bounds of sizes that a run finds and torch.export does not know: of boxes, no more stay than there are."""

from __future__ import annotations

from typing import Any

from torch.overrides import TorchFunctionMode

from edgex.export.capture.torch_internals import size_between


class SuppressionBounded(TorchFunctionMode):
    """Tells how many boxes `torchvision.ops.nms` can keep."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As torch calls it."""
        result = func(*args, **(kwargs or {}))
        if str(func).startswith("torchvision.nms") and not isinstance(result.shape[0], int):
            size_between(result.shape[0], 0, args[0].shape[0])
        return result
