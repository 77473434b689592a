"""Permutes between images and their pixels as views, where XNNPACK has the image with its channels last already.

Inside XNNPACK's regions images behind a convolution lie in memory as [N, H, W, C]. ExecuTorch 1.5 brings them into the
program's order of dimensions, and permutes that: two copies that undo each other, in every block of a ConvNeXt or Swin.

```
before   convolution -> permute [0, 2, 3, 1] (a copy) -> to NCHW (a copy)           -> linear
after    convolution -> view [N, H, W, C] of what is there                          -> linear

before   linear -> permute [0, 3, 1, 2] (a copy) -> to NHWC (a copy)                -> convolution
after    linear -> view of it as an image whose channels lie last                   -> convolution
```

Left alone: sizes that only a run knows, and quantized images.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from edgex.delegates.executorch.exir import operator_name
from edgex.runtime.support.dependency_messages import quiet_import

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

_TO_PIXELS, _TO_IMAGE = [0, 2, 3, 1], [0, 3, 1, 2]


@contextmanager
def permutes_as_views() -> Iterator[None]:
    """Within it, ExecuTorch lowers such permutes to XNNPACK as views.

    What its pass adds has a value, too: of a dequantized image that a layer and the output read, the pass gives the
    output what it made for the layer, and asks there for the value that it did not give it. And what one operator needs
    in another order it gets alone: the pass gives the copy of a dequantized image to all that read it, so that two with
    different needs undo each other's order, and one of them computes on images that lie the other way.
    """
    with quiet_import():
        from executorch.backends.xnnpack._passes.channels_last_tagged_reshape_pass import ChannelsLastTaggedReshapePass

    kind: Any = ChannelsLastTaggedReshapePass
    in_order, call, create = kind.requires_nchw_inputs, kind.call, kind.create_call_function_node
    insert = kind.insert_copy_q_dq

    def requires_nchw_inputs(self: Any, node: Node) -> bool:
        return _order_of(node) in (_TO_PIXELS, _TO_IMAGE) or in_order(self, node)

    def call_and_view(self: Any, graph_module: GraphModule) -> Any:
        result = call(self, graph_module)
        _write_views(result.graph_module, kind.XNN_NHWC_NODE)
        return result

    def create_with_value(self: Any, *args: Any, **kwargs: Any) -> Node:
        node: Node = create(self, *args, **kwargs)
        source: Any = node.args[0]
        if "val" in getattr(source, "meta", {}):
            order: Any = node.kwargs.get("memory_format")
            value = source.meta["val"]
            node.meta["val"] = value if order is None else value.contiguous(memory_format=order)
        return node

    def insert_for_one(self: Any, module: GraphModule, before: Node, after: Node, copy: Node, scale: Any) -> None:
        if len(before.users.keys() - {copy}) > 1:
            with module.graph.inserting_after(before):
                own = module.graph.node_copy(before)
            after.replace_input_with(before, own)
            copy.replace_input_with(before, own)
            before = own
        insert(self, module, before, after, copy, scale)

    kind.requires_nchw_inputs, kind.call = requires_nchw_inputs, call_and_view
    kind.create_call_function_node, kind.insert_copy_q_dq = create_with_value, insert_for_one
    try:
        yield
    finally:
        kind.requires_nchw_inputs, kind.call, kind.create_call_function_node = in_order, call, create
        kind.insert_copy_q_dq = insert


def _write_views(graph_module: GraphModule, tag: str) -> None:
    """Replace each pair of copies; `tag` in a node's meta says that its channels lie last."""
    graph = graph_module.graph
    for node in list(graph.nodes):
        source: Any = node.args[0] if node.args else None
        if _order_of(node) == _TO_PIXELS and _is_copy(source) and source.args[0].meta.get(tag, False):
            _view(source.args[0], node, node, {})
        elif _is_copy(node) and node.meta.get(tag, False) and _order_of(source) == _TO_IMAGE:
            _view(source.args[0], source, node, {tag: True})
    graph.eliminate_dead_code()
    graph_module.recompile()


def _view(source: Node, permute: Node, node: Node, tags: dict[str, bool]) -> None:
    """Put a view of `source`, which counts as the permute, in the place of a node of fixed sizes."""
    from executorch.exir.dialects._ops import ops

    shape = list(node.meta["val"].shape)
    if not all(isinstance(size, int) for size in shape):
        return
    with node.graph.inserting_before(node):
        view = node.graph.call_function(ops.edge.aten.view_copy.default, (source, shape))
    view.meta = {key: value for key, value in permute.meta.items() if not key.startswith("XNN_")} | tags
    node.replace_all_uses_with(view)


def _order_of(node: Any) -> list[int]:
    """The dimensions of a permute of four; none for anything else."""
    if getattr(node, "op", None) != "call_function" or operator_name(node) != "aten.permute_copy.default":
        return []
    dims = node.args[1]
    return [dim % len(dims) for dim in dims]


def _is_copy(node: Any) -> bool:
    """Whether it brings a tensor into another order of dimensions."""
    return getattr(node, "op", None) == "call_function" and operator_name(node) == "aten._to_copy.default"
