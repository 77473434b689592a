"""One method a size, for targets that compile for fixed sizes: `--sizes x:0=1,2,4`.

```
ids:1=16,64,256                         three methods: ids_1_16, ids_1_64, ids_1_256
ids:1=L=16,64  mask:1=L                 two, in which both inputs have one length: L_16, L_64
x:0=1,4  x:2=H=64,128  x:3=H            four: x_0_1_H_64, x_0_1_H_128, x_0_4_H_64, x_0_4_H_128
```

Each is captured and proved by itself, as the methods of `methods()` are; what they read of weights is in the artifact
once. Nothing is padded: a size that is not among them is refused when the artifact runs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from edgex.errors import UsageError, nearest_name

if TYPE_CHECKING:
    from edgex.export.source.source import ModelSource

# Of an artifact: each is compiled and proved by itself.
MOST = 32

_FORM = re.compile(r"(?P<input>[^:=]+):(?P<axis>\d+)=(?:(?P<name>[A-Za-z_]\w*)(?:=|$))?(?P<sizes>\d+(?:,\d+)*)?")
_EXAMPLE = "--sizes x:0=1,2,4; with a name that inputs share: --sizes ids:1=L=16,64 --sizes mask:1=L"


@dataclass(frozen=True)
class Sizes:
    """What one dimension, or several that are always equal, may be.

    Attributes:
        name: Part of the methods' names.
        sizes: In order.
        places: Inputs by name, with the axis.
    """

    name: str
    sizes: tuple[int, ...]
    places: tuple[tuple[str, int], ...]


def parse_sizes(texts: Sequence[str]) -> tuple[Sizes, ...]:
    """What `--sizes` says, each text one dimension.

    Raises:
        UsageError: A text has another form, a dimension or a size comes twice, or a name has no sizes or two lists.
    """
    places: dict[tuple[str, int], str] = {}
    lists: dict[str, tuple[int, ...]] = {}
    for text in texts:
        match = _FORM.fullmatch(text.replace(" ", ""))
        if match is None or (match["name"] is None and match["sizes"] is None):
            raise UsageError(f"--sizes {text}: expected input:axis=SIZE,SIZE…", fix=_EXAMPLE)
        place = match["input"], int(match["axis"])
        if place in places:
            raise UsageError(f"--sizes {text}: this dimension is given twice", fix="give it once, with all its sizes")
        name = match["name"] or f"{re.sub(r'[^A-Za-z0-9]', '_', match['input'])}_{match['axis']}"
        places[place] = name
        if match["sizes"] is not None:
            sizes = tuple(int(size) for size in match["sizes"].split(","))
            if len(set(sizes)) < len(sizes) or 0 in sizes:
                raise UsageError(f"--sizes {text}: sizes are different, and 1 or more", fix=_EXAMPLE)
            if lists.get(name, sizes) != sizes:
                raise UsageError(f"--sizes {text}: {name} has other sizes elsewhere", fix="give them once")
            lists[name] = sizes
    for name in places.values():
        if name not in lists:
            raise UsageError(f"--sizes: {name} has no sizes", fix=_EXAMPLE)
    found = tuple(
        Sizes(name, sizes, tuple(place for place, named in places.items() if named == name))
        for name, sizes in lists.items()
    )
    count = len(list(itertools.product(*(item.sizes for item in found))))
    if count > MOST:
        raise UsageError(f"--sizes gives {count} combinations, an artifact takes {MOST}", fix="give fewer sizes")
    return found


def split_by_size(source: ModelSource, wanted: Sequence[Sizes]) -> ModelSource:
    """The model as one method for each combination of sizes, in order; the first has the others.

    Example inputs of another size are the example's slices along that axis, repeated, so that integers stay in range.

    Args:
        source: Has one method.
        wanted: Of `parse_sizes`; empty leaves the source as it is.

    Raises:
        UsageError: There is no such input or dimension, or the model is a program, whose sizes are fixed.
    """
    if not wanted:
        return source
    from torch.export import ExportedProgram

    if isinstance(source.module, ExportedProgram):
        raise UsageError(
            "--sizes needs the model's code, and this is an exported program",
            source.description,
            "export from the model's Python file",
        )
    methods = []
    for sizes in itertools.product(*(item.sizes for item in wanted)):
        name = "_".join(f"{item.name}_{size}" for item, size in zip(wanted, sizes, strict=True))
        resized = {place: size for item, size in zip(wanted, sizes, strict=True) for place in item.places}
        args, kwargs = _resize(source, resized)
        methods.append(replace(source, args=args, kwargs=kwargs, method=name, dynamic_shapes=None, notices=()))
    notices = source.notices
    if source.dynamic_shapes is not None:
        notices = (*notices, "--sizes is given: the file's dynamic_shapes are not used")
    return replace(methods[0], others=tuple(methods[1:]), by_size=True, notices=notices)


def _resize(source: ModelSource, sizes: Mapping[tuple[str, int], int]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example call with these sizes, by input and axis."""
    import inspect

    import torch

    from edgex.delegates.graph.torch_internals import pytree
    from edgex.export.capture.dimensions.dynamic import resize
    from edgex.export.source.leaves import in_signature_order, name_inputs, name_positional, register_dataclasses

    assert isinstance(source.module, torch.nn.Module)
    register_dataclasses((source.args, source.kwargs))
    signature = inspect.signature(source.module.forward)
    kwargs = in_signature_order(signature, source.kwargs)
    leaves = name_inputs(name_positional(signature, len(source.args)), source.args, kwargs)
    tensors = {leaf.name: leaf.value for leaf in leaves if leaf.is_tensor}
    for name, axis in sizes:
        if name not in tensors:
            raise UsageError(
                f"--sizes {name}:{axis}: there is no such input", source.description, why=nearest_name(name, tensors)
            )
        if axis >= tensors[name].dim():
            raise UsageError(
                f"--sizes {name}:{axis}: the input has {tensors[name].dim()} dimensions", source.description
            )
    values = []
    for leaf in leaves:
        value = leaf.value
        for (name, axis), size in sizes.items():
            if leaf.is_tensor and leaf.name == name and value.shape[axis] != size:
                value = resize(value, axis, size)
        values.append(value)
    args, kwargs = pytree.tree_unflatten(values, pytree.tree_structure((source.args, kwargs)))
    return args, kwargs
