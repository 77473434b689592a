"""Caches that a region writes where they are, so that no call copies them.

```
before:  attended, keys, values = edgex.cached_attention(query, k, v, key_cache, value_cache, end, …)
         return keys, values, logits                      # what the buffers hold after the call
after:   attended, _, _ = edgex.cached_attention(query, k, v, key_cache, value_cache, end, …)
         return key_cache, value_cache, logits            # the buffers themselves
```

ExecuTorch copies nothing into a buffer that is returned as itself. The operator gives its caches back only to the
program's end: what the rewrite `write_cached_attention` takes has no other reader.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from torch.fx import Node

from edgex.delegates.executorch.exir import operator_name
from edgex.delegates.graph.attention.cached import NAME, NAME_INT8, NAMESPACE
from edgex.errors import LoweringError

if TYPE_CHECKING:
    from torch.fx import GraphModule

_OPERATORS = frozenset(f"{NAMESPACE}.{name}.default" for name in (NAME, NAME_INT8))
# The results after the first are the caches, in the order in which they stand among the arguments.
_FIRST_CACHE = 3


def keep_caches_in_place(module: GraphModule) -> Any:
    """A pass over an edge program: return the buffers themselves where attention writes them.

    Raises:
        LoweringError: A cache that attention gave back has another reader than the program's end.
    """
    from torch.fx.passes.infra.pass_base import PassResult

    graph = module.graph
    found = [
        (part, node.args[_FIRST_CACHE + part.args[1] - 1])
        for node in graph.nodes
        if node.op == "call_function" and operator_name(node) in _OPERATORS
        for part in list(node.users)
        if part.target is operator.getitem and part.args[1] > 0
    ]
    end = graph.output_node()
    for part, buffer in found:
        readers = [user.name for user in part.users if user is not end]
        if readers or not isinstance(buffer, Node) or buffer.op != "placeholder":
            raise LoweringError(
                "a cache that attention writes is used beside it",
                why=f"{', '.join(readers) or buffer} reads it after the attention",
                fix="let the model read its cache in attention alone",
            )
        end.replace_input_with(part, buffer)
        graph.erase_node(part)
    if found:
        module.recompile()
    return PassResult(module, bool(found))
