"""Constants that several regions read, each region with one of its own.

ExecuTorch gives every reader of such a constant a copy, and all copies the constant's name. A region with two readers
then has two inputs of one name, and torch fails on it: "`zeros` is not a buffer" (ExecuTorch 1.5; the initial state of
a bidirectional LSTM of two layers), or finds a copy with the tag of another region. Done here before, a region has one
copy, whose name is its own:

```
before:  zeros -> a (region 0), b (region 1), c (region 1)
after:   zeros -> a             zeros_of_1 -> b, c
```

A kernel that several conv1d read, such as a layer that is called twice, is copied for each of them: XNNPACK's delegate
gives kernels of one dimension a second one where a conv1d stands, and then knows the other conv1d no more
(`conv1d_unsqueeze_pass.py`); a batch norm becomes such a conv1d. Files hold equal constants once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, TensorArgument

from edgex.delegates.graph.schema import operator_name

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

_TAG = "delegation_tag"
_BATCH_NORM = "aten::_native_batch_norm_legit_no_training"


@contextmanager
def constants_of_regions() -> Iterator[None]:
    """Within it, what ExecuTorch copies for each reader was copied for each region before."""
    from executorch.exir.backend import backend_api

    original = backend_api._maybe_duplicate_constant_nodes

    def duplicate(program: ExportedProgram, tag: str) -> None:
        separate_shared_constants(program)
        original(program, tag)

    backend_api._maybe_duplicate_constant_nodes = duplicate
    try:
        yield
    finally:
        backend_api._maybe_duplicate_constant_nodes = original


def separate_shared_constants(program: ExportedProgram) -> None:
    """Give each region its own copy of a constant that others read too; in place.

    Args:
        program: An edge program whose nodes are tagged by region.
    """
    signature = program.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    specs: list[InputSpec] = []
    for spec, node in zip(signature.input_specs, _placeholders(program), strict=True):
        specs.append(spec)
        if spec.kind is InputKind.USER_INPUT or isinstance(spec.arg, ConstantArgument) or spec.target in changed:
            continue
        if _TAG not in node.meta:
            continue
        readers = _readers_by_region(node)
        if len(readers) <= 1:
            continue
        last = node
        for key in list(readers)[1:]:
            last, copied = _copy(program, spec, node, last, key[0], readers[key])
            specs.append(copied)
        _set_tag(node, next(iter(readers))[0])
    if len(specs) != len(signature.input_specs):
        signature.input_specs = specs
        program.graph_module.recompile()


def _placeholders(program: ExportedProgram) -> list[Node]:
    return [node for node in program.graph.nodes if node.op == "placeholder"]


def _readers_by_region(node: Node) -> dict[tuple[str | None, Node | None], list[Node]]:
    """The readers of a constant, by region, and those apart that need one of their own."""
    found: dict[tuple[str | None, Node | None], list[Node]] = {}
    for user in node.users:
        tag = user.meta.get(_TAG)
        alone = tag is not None and (_is_conv1d(user, node) or operator_name(user) == _BATCH_NORM)
        found.setdefault((tag, user if alone else None), []).append(user)
    return found


def _is_conv1d(user: Node, kernel: Node) -> bool:
    return operator_name(user) == "aten::convolution" and user.args[1] is kernel and kernel.meta["val"].dim() == 3


def _copy(
    program: ExportedProgram, spec: InputSpec, node: Node, last: Node, tag: str | None, readers: list[Node]
) -> tuple[Node, InputSpec]:
    """One more placeholder behind `last`, of the same tensor as `node`, for these readers."""
    held: Any = program.constants if spec.target in program.constants else program.state_dict
    names = {other.name for other in program.graph.nodes}
    number = next(n for n in count(1) if f"{spec.target}_of_{n}" not in held and f"{node.name}_of_{n}" not in names)
    target, name = f"{spec.target}_of_{number}", f"{node.name}_of_{number}"
    held[target] = held[spec.target]
    with program.graph.inserting_after(last):
        copied = program.graph.placeholder(name)
    copied.meta = dict(node.meta)
    _set_tag(copied, tag)
    for reader in readers:
        reader.replace_input_with(node, copied)
    return copied, InputSpec(spec.kind, TensorArgument(copied.name), target, spec.persistent)


def _set_tag(node: Node, tag: str | None) -> None:
    if tag is None:
        node.meta.pop(_TAG, None)
    else:
        node.meta[_TAG] = tag
