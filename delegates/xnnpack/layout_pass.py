"""ExecuTorch's pass that chooses the memory order inside XNNPACK's regions, with an operator that it forgets.

Behind a convolution images stay channels-last until an operator needs them otherwise. XNNPACK's softmax works on the
innermost elements, and the pass of ExecuTorch 1.5 does not name it: behind a convolution it ran over the channels
instead of the last dimension. Here it is named while a program is lowered.

```
before   convolution -> softmax (over the channels, wrong)             -> convolution
after    convolution -> to NCHW -> softmax (over the last dimension)   -> to NHWC -> convolution
```
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from edgex.runtime.support.dependency_messages import quiet_import


@contextmanager
def softmax_in_order() -> Iterator[None]:
    """Within it, ExecuTorch lowers softmax to XNNPACK in the program's order of dimensions."""
    with quiet_import():
        from executorch.backends.xnnpack._passes.channels_last_tagged_reshape_pass import ChannelsLastTaggedReshapePass
        from executorch.exir.dialects._ops import ops

    known = ChannelsLastTaggedReshapePass.memory_sensitive_ops_nchw
    ChannelsLastTaggedReshapePass.memory_sensitive_ops_nchw = {*known, ops.edge.aten._softmax.default}
    try:
        yield
    finally:
        ChannelsLastTaggedReshapePass.memory_sensitive_ops_nchw = known
