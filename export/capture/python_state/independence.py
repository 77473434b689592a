"""Whether a Python value that forward changes can matter to what it returns.

```
self.calls += 1                     nothing reads it: the artifact leaves it out, and says so
if self.calls > 3: x = x * 2        the outputs depend on it: no exported program does that
```

An exported program keeps such a value as it was while tracing. That is right only if no value of it changes an output;
so the model is run with the value as it becomes over several runs, and with values far from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from edgex.export.capture.python_state.holders import container_items, find_holders, replace_content
from edgex.export.capture.python_state.side_effects import Change

# Runs in a row: a counter that is read modulo three shows itself.
RUNS_IN_A_ROW = 3
# A list or queue that grows is also tried this many times as long.
_TIMES_LONGER = 64
_FAR = 1_000_003


def find_dependence(module: torch.nn.Module, changes: Sequence[Change], agree: Callable[[], bool]) -> Change | None:
    """The first change that outputs may depend on, or None.

    Args:
        module: What is run.
        changes: What each run changes; the values are others afterwards, and the caller puts them back.
        agree: Runs the model from its initial buffers, and says whether outputs are those of the first run.
    """
    unknown = next((change for change in changes if not change.rebound and not _can_be_tried(change)), None)
    if unknown is not None:
        return unknown
    if not all(agree() for _ in range(RUNS_IN_A_ROW)):
        return changes[0]
    tried = [change for change in changes if not change.rebound]
    for at in range(max((len(_other_values(change.value)) for change in tried), default=0)):
        if not _holds_with(module, tried, at, agree):
            # All at once first, since a model of many layers changes one in each; then one at a time to name it.
            return next((change for change in tried if not _holds_with(module, [change], at, agree)), tried[0])
    return None


def _holds_with(module: torch.nn.Module, changes: Iterable[Change], at: int, agree: Callable[[], bool]) -> bool:
    """Whether outputs stay when the changes' values are replaced by the other value number `at` of each."""
    holders = {holder.path: holder for holder in find_holders(module) if holder.kind == "attribute"}
    for change in changes:
        if change.holder is None:
            continue
        # The object may be another one by now.
        holder = holders.get(change.holder.path, change.holder) if change.kind == "attribute" else change.holder
        others = _other_values(holder.values.get(change.key))
        if at < len(others):
            _put(holder.values, change.key, others[at])
    try:
        return agree()
    except Exception:  # the user's code with a value that it never meets: it reads the value, which is enough
        return False


def _can_be_tried(change: Change) -> bool:
    kinds = (bool, int, float, str, list, deque, dict, set, type(None))
    return change.kind != "random" and change.holder is not None and isinstance(change.value, kinds)


def _other_values(value: Any) -> list[Any]:
    """What a value might be after many runs, and what it never is."""
    if isinstance(value, bool):
        return [True, False]
    if isinstance(value, (int, float)):
        return [type(value)(other) for other in (0, 1, 2, 3, value + 1, 2 * value + 17, _FAR, -1)]
    if isinstance(value, (list, deque)):
        return [[], [item for _ in range(_TIMES_LONGER) for _, item in container_items(value) or ()]]
    if isinstance(value, (dict, set)):
        return [[]]
    return []  # what it was, and what it becomes, are tried by the runs in a row


def _put(values: dict[str, Any], key: str, other: Any) -> None:
    now = values.get(key)
    if isinstance(now, (list, deque, dict, set)):
        replace_content(now, list(enumerate(other)))
    else:
        dict.__setitem__(values, key, other)
