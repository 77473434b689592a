"""The initial values of state in a program's file, kept apart from its constants.

ExecuTorch 1.5 stores what has the same bytes once. For a buffer that the program changes and whose name is stored, it
looks among the constants instead of among the initial values of other such buffers, which are a part of the file of
their own:

```
before   constants:       1 zeros [1, 32, 2]           the state `before` begins at: 1, of constants
         initial values:  none
after    constants:       1 zeros [1, 32, 2]           the state `before` begins at: 1, of initial values
         initial values:  1 zeros [1, 32, 2]
```

So `torch.where(position == 0, torch.zeros_like(state), state)` made a program that could not be loaded ("No mutable
data segments in program"), or, with other state beside it, one that began with the other's values. Here it looks in
the right place, and the zeros of all caches of a size lie in the file once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def initial_state_apart() -> Iterator[None]:
    """Within it, ExecuTorch's emitter finds the initial values of state among those of other state."""
    from executorch.exir.emit import _emitter

    kind: Any = _emitter._Emitter
    plain = kind._tensor_spec_to_evalue

    def to_value(self: Any, spec: Any, constant_tag: str | None = None) -> Any:
        if not spec.const or spec.mem_id is None or spec.mem_offset is None:
            return plain(self, spec, constant_tag)
        known = self.program_state
        constants = known.cached_spec_hash_values
        known.cached_spec_hash_values = known.cached_spec_mutable_hash_values
        try:
            return plain(self, spec, constant_tag)
        finally:
            known.cached_spec_hash_values = constants

    kind._tensor_spec_to_evalue = to_value
    try:
        yield
    finally:
        kind._tensor_spec_to_evalue = plain
