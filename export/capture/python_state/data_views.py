"""What `tensor.data` gives is a view, while torch.export follows: it sees no write through the attribute.

```
energies.data.masked_fill_(mask, -inf)       # Tacotron 2
before:  a tensor that is no part of the program is written to, and energies keep their values
after:   detach = aten.detach.default(energies);  aten.masked_fill_.Scalar(detach, mask, -inf)
```
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class DataAsView(TorchFunctionMode):
    """Reads `tensor.data` as `tensor.detach()`: the same memory, which writes reach."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """As torch calls it."""
        if func == torch.Tensor.data.__get__:  # type: ignore[attr-defined]  # an object of its own at every access
            return args[0].detach()
        return func(*args, **(kwargs or {}))
