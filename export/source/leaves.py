"""Names for the leaves of a call's inputs and of its outputs: the path from the root, joined with dots.

```
forward(x, batch, *args, scale=None)        x, batch.mask, batch.ids.0, args.0, args.1, scale
return (y, (z, w))                          output_0, output_1, output_2
return {"logits": y, "states": (h, c)}      logits, states.0, states.1
return y, {"attention": a}                  output_0, output_1.attention
```

A dataclass counts as a dict of its fields; a named tuple is a tuple.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from edgex.delegates.graph.torch_internals import pytree
from edgex.errors import CaptureError


@dataclasses.dataclass(frozen=True)
class Leaf:
    """One leaf of a nested value.

    Attributes:
        name: Its path, as users know it.
        value: A tensor, or a constant of the call (int, float, bool, str, None).
        source: Of an input, the expression by which torch.export knows it, for example `L['batch']['mask']`.
    """

    name: str
    value: Any
    source: str = ""

    @property
    def is_tensor(self) -> bool:
        """Whether it becomes an input or output of the program."""
        return isinstance(self.value, torch.Tensor)


def in_signature_order(signature: inspect.Signature, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments in the order in which forward declares them; those of `**kwargs` last, as given."""
    declared = {name: kwargs[name] for name in signature.parameters if name in kwargs}
    return {**declared, **{name: value for name, value in kwargs.items() if name not in declared}}


def name_inputs(positional: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Leaf, ...]:
    """The leaves of a call in call order.

    Args:
        positional: A name for each of `args`; see `name_positional`.
        args: Positional arguments, nested.
        kwargs: Keyword arguments, nested, in call order.

    Raises:
        CaptureError: Two leaves have the same name.
    """
    leaves = []
    for path, value in _with_paths((tuple(args), dict(kwargs))):
        root = positional[path[1].idx] if isinstance(path[1], pytree.SequenceKey) else _key_text(path[1])
        parameter, _, index = root.partition(".")
        source = f"L['{parameter}']" + (f"[{index}]" if index else "") + pytree.keystr(path[2:])
        leaves.append(Leaf(".".join([root, *map(_key_text, path[2:])]), value, source))
    _require_unique("input", leaves)
    return tuple(leaves)


def name_positional(signature: inspect.Signature, count: int) -> tuple[str, ...]:
    """Names of the first `count` positional arguments: parameter names, then `args.0`, `args.1`, … of `*args`."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [name for name, parameter in signature.parameters.items() if parameter.kind in kinds][:count]
    rest = [n for n, p in signature.parameters.items() if p.kind == inspect.Parameter.VAR_POSITIONAL] or ["args"]
    return (*names, *(f"{rest[0]}.{at}" for at in range(count - len(names))))


def name_outputs(value: Any) -> tuple[Leaf, ...]:
    """The leaves of a returned value in order, None included.

    A path through tuples and lists alone becomes `output_<n>`, n counting the tensors returned.

    Raises:
        CaptureError: Two leaves have the same name.
    """
    leaves: list[Leaf] = []
    count = 0
    for path, leaf in _with_paths(value):
        if all(isinstance(key, pytree.SequenceKey) or _is_tuple_field(value, path, at) for at, key in enumerate(path)):
            name = f"output_{count}"
        else:
            texts = [_key_text(key) for key in path]
            prefix = "output_" if isinstance(path[0], pytree.SequenceKey) else ""
            name = prefix + ".".join(texts)
        count += leaf is not None
        leaves.append(Leaf(name, leaf))
    _require_unique("output", [leaf for leaf in leaves if leaf.value is not None])
    return tuple(leaves)


def register_dataclasses(value: Any) -> None:
    """Make every dataclass in a nested value a container, so that its fields are leaves.

    The registration holds for the process. It is torch.export's own and what the user would write.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if type(value) not in pytree.SUPPORTED_NODES:
            torch.export.register_dataclass(type(value))
        children: Iterable[Any] = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        children = value.values()
    elif isinstance(value, (list, tuple)):
        children = value
    else:
        return
    for child in children:
        register_dataclasses(child)


def _with_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every leaf with its path of keys, as torch's pytrees give them.

    A library may have registered a class of its own without telling how its parts are called, which is enough for
    torch.export and not for `tree_flatten_with_path`: a mapping then has its keys, anything else its positions.
    """
    node = pytree.SUPPORTED_NODES.get(pytree._get_node_type(value))
    if node is None:
        yield path, value
        return
    if node.flatten_with_keys_fn is not None:
        children: Iterable[tuple[Any, Any]] = node.flatten_with_keys_fn(value)[0]
    else:
        parts = list(node.flatten_fn(value)[0])
        keys = list(value) if isinstance(value, Mapping) else []
        named: list[Any] = [pytree.MappingKey(key) for key in keys]
        if len(named) != len(parts):
            named = [pytree.SequenceKey(at) for at in range(len(parts))]
        children = zip(named, parts, strict=True)
    for key, child in children:
        yield from _with_paths(child, (*path, key))


def _is_tuple_field(value: Any, path: Sequence[Any], at: int) -> bool:
    """Whether the key at this place of the path is a field of a named tuple."""
    for key in path[:at]:
        value = key.get(value)
    return isinstance(value, tuple)


def _key_text(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def _require_unique(word: str, leaves: Sequence[Leaf]) -> None:
    seen = set()
    for leaf in leaves:
        if leaf.name in seen:
            raise CaptureError(
                f"two {word}s are both named {leaf.name!r}",
                why="names are the path of keys joined with dots, and a key holds a dot",
                fix="rename the key",
            )
        seen.add(leaf.name)
