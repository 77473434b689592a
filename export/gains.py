"""What rewrites won: operators that the delegate would leave out of its regions without them.

```
plan of the program as captured       left out: 3 x aten.max_pool2d at net.py:9 (in layers.0.pool)
plan of the rewritten program         left out: nothing at net.py:9
write_max_pools, of net.py:9          won: 3
```

Both plans are made on the graph; nothing is lowered a second time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from edgex.errors import EdgexError

if TYPE_CHECKING:
    from edgex.delegates.base import CapturedProgram, Delegate
    from edgex.delegates.plan import PartitionPlan
    from edgex.export.rewrites.base import Rewrite
    from edgex.export.settings import ExportSettings
    from edgex.export.target_model import TargetModel

# A plan takes about 3 ms for a node; for larger graphs nothing is counted.
MOST_NODES = 600
# Recurrent layers that were not written step by step are planned one step after another.
_UNROLLED = ("lstm", "gru", "rnn_tanh", "rnn_relu")


def count_gains(
    captured: CapturedProgram, applied: Sequence[Rewrite], plan: PartitionPlan, delegate: Delegate, options: Any
) -> tuple[Rewrite, ...]:
    """The rewrites with what each one won.

    An operator counts for the rewrite that the delegate names for it, else for the first that changed its line: later
    ones put in order what that made.

    Args:
        captured: The program before all rewrites, in the same precision.
        applied: What changed it.
        plan: Of the rewritten program.
        delegate: Whose plan it is.
        options: As the plan was made with.

    Returns:
        They are as they were (`won` is None) where the graph is large, or the target does not take it unrewritten.
    """
    nodes = captured.exported.graph.nodes
    recurrent = any(str(node.target).startswith(tuple(f"aten.{name}.input" for name in _UNROLLED)) for node in nodes)
    if not applied or len(nodes) > MOST_NODES or recurrent:
        return tuple(applied)
    try:
        before = delegate.plan(captured, options)
    except EdgexError:  # without its rewrites the program is none of the target's
        return tuple(applied)
    left = Counter[str | None]()
    for item in plan.fallbacks:
        left[item.source] += item.count
    won: Counter[str] = Counter()
    for item in before.fallbacks:
        still = min(left[item.source], item.count)
        left[item.source] -= still
        made_for_it = [rewrite for rewrite in applied if rewrite.name == item.rewrite]
        changed = [rewrite for rewrite in applied if _changed(rewrite, item.source, item.modules)]
        for rewrite in (*made_for_it, *changed)[:1]:
            won[rewrite.name] += item.count - still
    return tuple(replace(rewrite, won=won[rewrite.name]) for rewrite in applied)


def _changed(rewrite: Rewrite, source: str | None, modules: Sequence[str]) -> bool:
    """Whether a rewrite changed what stands at a line, in one of these modules."""
    places = {source, *(f"{module} ({source})" for module in modules)}
    return source is not None and not places.isdisjoint(rewrite.sources)


def with_gains(model: TargetModel, plan: PartitionPlan, settings: ExportSettings) -> TargetModel:
    """A model whose rewrites say what they won, where the plan differs from the unrewritten program's by them alone."""
    captured = model.rewritten.captured
    same = settings.precision == "fp32" and settings.recipe is None and not settings.exclude
    if captured is None or not same or model.source.method is not None:
        return model
    applied = count_gains(captured, model.rewritten.applied, plan, model.job.delegate, model.job.options)
    return replace(model, rewritten=replace(model.rewritten, applied=applied))
