"""Put new operators into a program under edit, with values and provenance like those around them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from edgex.delegates.graph.schema import leaves_of
from edgex.export.rewrites.editing.editor import FakeMode, ProgramEditor

# In the `meta` of an operator: recipes leave it in floating point, and what is made of it.
KEEPS_FLOAT = "edgex_keeps_float"


class Replacement:
    """Operators that take the place of one; they count as parts of its source line and module.

    Args:
        editor: The program under edit.
        original: The operator to replace, a node of the original program.
    """

    def __init__(self, editor: ProgramEditor, original: Node) -> None:
        self._editor = editor
        self._original = original
        self._node = editor.node(original)
        self._mode = FakeMode(leaves_of(original.meta["val"]))

    def read(self, original: Node) -> Node:
        """The copy of a node of the original program."""
        return self._editor.node(original)

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """Add an operator before the replaced one.

        Args:
            target: An operator of `torch.ops.aten`, with its overload.
            args: Nodes of the copy, and literals.
            kwargs: The same by name.
        """
        values = torch.fx.map_arg((args, kwargs), lambda arg: arg.meta["val"])
        with torch.no_grad(), self._mode:
            value = target(*values[0], **values[1])
        return self.insert(target, args, kwargs, value)

    def insert(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], value: Any) -> Node:
        """Add an operator, as `call` does, whose value (fake tensors of the program's mode) is known."""
        with self._editor.graph.inserting_before(self._node):
            node = self._editor.graph.call_function(target, args, kwargs)
        keys = ("stack_trace", "nn_module_stack", "torch_fn", "from_node", KEEPS_FLOAT)
        node.meta = {key: self._original.meta[key] for key in keys if key in self._original.meta}
        node.meta["val"] = value
        return node

    def constant(self, name: str, tensor: torch.Tensor, *, is_parameter: bool = False) -> Node:
        """Add a constant; `tensor` is real, or fake where the program's weights are, in their own mode."""
        with torch.no_grad(), self._mode:
            if hasattr(tensor, "fake_mode"):
                val = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
            else:
                val = self._mode.convert(tensor)
        return self._editor.add_constant(name, tensor, val, is_parameter=is_parameter)

    def finish(self, result: Node | Sequence[Node | None]) -> None:
        """Let `result` stand for the replaced operator, which goes; of several results, None for one without users."""
        if isinstance(result, Node):
            self._node.replace_all_uses_with(result)
        else:
            for user in list(self._node.users):
                assert user.target is operator.getitem
                index = user.args[1]
                assert isinstance(index, int)
                chosen = result[index]
                if chosen is not None:
                    user.replace_all_uses_with(chosen)
                self._editor.graph.erase_node(user)
        self._editor.graph.erase_node(self._node)
