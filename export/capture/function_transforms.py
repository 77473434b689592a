"""Expand what `torch.vmap` and `torch.func.jvp` leave in a program: their own calls, around operators of other shapes.

```
before:  _vmap_increment_nesting(4, 'error');  a = _add_batch_dim(x, 0, 1)      # x: [4, 16], a: [16] inside
         b = aten.ge.Scalar(a, 0);  y = _remove_batch_dim(b, 1, 4, 0)
after:   y = aten.ge.Scalar(x, 0)                                               # x: [4, 16]
```

Between these calls an operator's meta data are of one example, which no rewrite and no partitioner expects. The masks
of transformers are written with `vmap`.
"""

from __future__ import annotations

from torch.export import ExportedProgram
from torch.fx import Node

_CALLS = "torch._functorch.predispatch"


def expand_transforms(program: ExportedProgram) -> ExportedProgram:
    """Write operators for the whole batch; a program without such calls comes back as it is.

    The empty table keeps linear, attention and the like as they are; what a program writes in place becomes an output
    of its signature, as in programs that were decomposed before they were given to edgex.
    """
    if any(_is_transform(node) for node in program.graph.nodes):
        expanded: ExportedProgram = program.run_decompositions({})
        return expanded
    return program


def _is_transform(node: Node) -> bool:
    return node.op == "call_function" and getattr(node.target, "__module__", None) == _CALLS
