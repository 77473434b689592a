"""Pool images without a batch dimension as a batch of one: ExecuTorch's XNNPACK lowers pools of four dimensions only.

```
before:  y = aten.max_pool2d.default(x, [3, 3], [1, 1], [1, 1])                  # x: [1, 96, 128]
after:   y = aten.max_pool2d.default(x.unsqueeze(0), [3, 3], [1, 1], [1, 1]).squeeze(0)
```

`scores = simple_nms(scores)` with `[batch, height, width]` is one, and the program was refused as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.schema import named_arguments
from edgex.export.rewrites.base import Rewrite
from edgex.export.rewrites.editing.substitution import Rule, Rules, substitute

aten = torch.ops.aten

_POOLS = (
    *(aten.max_pool2d.default, aten.avg_pool2d.default),
    *(aten.adaptive_avg_pool2d.default, aten.adaptive_max_pool2d.default),
)


def pool_as_batches(program: CapturedProgram) -> tuple[CapturedProgram, Rewrite | None]:
    """Write every such pool; the same program comes back without one."""
    rules: Rules = {pool: Rule(_batched(pool), where=_has_no_batch) for pool in _POOLS}
    return substitute(
        program, "pool_as_batches", rules, "{count} pool(s) of single images became those of a batch of one"
    )


def _has_no_batch(node: Node) -> bool:
    return bool(named_arguments(node)["self"].meta["val"].dim() == 3)


def _batched(pool: Callable[..., Any]) -> Callable[..., Any]:
    def write(x: torch.Tensor, *settings: Any) -> Any:
        found = pool(x.unsqueeze(0), *settings)
        return tuple(one.squeeze(0) for one in found) if isinstance(found, tuple) else found.squeeze(0)

    return write
