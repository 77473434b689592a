"""Buffers that runs fill: a table of positions that is made for the image's size, filters that are made of weights.

```
if self.table.shape[1] != x.shape[1]:
    self.table = make_table(x.shape[1])         # another shape than the buffer has

self.filters = make_filters(self.mean, self.width)                  # another tensor at every run
```

torch.export cannot record such a change, and there is none to record: once the buffer is filled, no run changes its
values. So the model is captured with it filled. That is right only where what is filled in depends on weights and on
the inputs' sizes, which the program fixes, and not on their values, and where the first run gives what later ones give;
all of it is tried before it is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from edgex.errors import CaptureError
from edgex.export.source.eager import BufferSnapshot


def fill_buffers(
    module: torch.nn.Module,
    buffers: BufferSnapshot,
    touched: Mapping[str, tuple[str, ...]],
    run: Callable[[bool], object],
    agrees: Callable[[object], bool],
) -> tuple[str, ...]:
    """Leave the buffers filled that a run replaces, if they hold the same after every run.

    Args:
        module: After a run on its example inputs.
        buffers: As they were before that run.
        touched: All names of those that the run touched, by the first one.
        run: Runs the module, on the example inputs or, with True, on others of the same sizes.
        agrees: Whether what a run on the example inputs returned is what that first one did.

    Returns:
        Names of the buffers that are filled now; all others are as before. Empty where they are state after all, or
        shared between modules.

    Raises:
        CaptureError: Such a buffer changes its shape and is not filled once: no state of an artifact does.
    """
    shapes = [(name, buffers.value_of(name), _buffer_of(module, name)) for name in touched]
    filled = _fill(module, buffers, touched, run, agrees)
    for name, before, now in shapes:
        if name not in filled and before is not None and now is not None and before.shape != now.shape:
            raise CaptureError(
                f"forward gives buffer {name} another shape: {list(before.shape)} becomes {list(now.shape)}",
                why="what an artifact keeps between runs has one shape",
                fix=f"make it as large as it gets, and write into it: self.{name}[:n] = value",
            )
    return filled


def _fill(
    module: torch.nn.Module,
    buffers: BufferSnapshot,
    touched: Mapping[str, tuple[str, ...]],
    run: Callable[[bool], object],
    agrees: Callable[[object], bool],
) -> tuple[str, ...]:
    """The same, without the check."""
    replaced = buffers.replaced()
    filled = {
        name: value.detach().clone()
        for name, value in ((name, _buffer_of(module, name)) for name in touched if name in replaced)
        if value is not None and len(touched[name]) == 1
    }
    buffers.restore()
    if not filled:
        return ()
    try:
        run(True)
    except Exception:  # the user's code, on inputs that it may not take: nothing is known
        buffers.restore()
        return ()
    again = {name: _buffer_of(module, name) for name in filled}
    buffers.restore()
    filled = {name: value for name, value in filled.items() if _same(value, again[name])}
    if not filled:
        return ()
    for name, value in filled.items():
        owner, _, key = name.rpartition(".")
        setattr(module.get_submodule(owner), key, value)
    after = BufferSnapshot(module)
    settled = agrees(run(False)) and all(_same(filled[name], _buffer_of(module, name)) for name in filled)
    after.restore()
    if not settled:
        buffers.restore()
        return ()
    return tuple(filled)


def _buffer_of(module: torch.nn.Module, name: str) -> torch.Tensor | None:
    return dict(module.named_buffers(remove_duplicate=False)).get(name)


def _same(first: torch.Tensor, second: torch.Tensor | None) -> bool:
    return (
        second is not None
        and first.shape == second.shape
        and torch.equal(torch.nan_to_num(first), torch.nan_to_num(second))
    )
