"""Keep views valid behind operators that lie in another order than those whose place they take."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.fx import Node

from edgex.delegates.graph.schema import overload_of, schema_of
from edgex.export.rewrites.editing.editor import ProgramEditor

_aten = torch.ops.aten


def reshape_views(editor: ProgramEditor, replaced: Iterable[Node]) -> None:
    """Write every `view` that may read another order now as `reshape`, which copies where it has to.

    ```
    before:  y = aten.conv3d.default(x, weight); z = aten.view.default(aten.relu.default(y), [1, 512, 14, 14])
    after:   y = aten.transpose.int(frames, 1, 2); z = aten.reshape.default(aten.relu.default(y), [1, 512, 14, 14])
    ```

    Args:
        editor: The copy in which the operators are replaced.
        replaced: They, in the original program.
    """
    seen: set[Node] = set()
    reached = list(replaced)
    while reached:
        for user in reached.pop().users:
            if user in seen or user.op != "call_function" or not _keeps_order(user):
                continue
            seen.add(user)
            reached.append(user)
            copy = editor.node(user)
            if copy.target == _aten.view.default and user not in editor.written:
                copy.target = _aten.reshape.default


def _keeps_order(node: Node) -> bool:
    """Whether the order of an operator's result in memory follows from its operand's."""
    overload = overload_of(node)
    if overload is None:
        return True  # one of several results
    return torch.Tag.pointwise in overload.tags or any(result.alias_info for result in schema_of(overload).returns)
