"""Which method runs inputs of some sizes, where an artifact holds one model at several fixed sizes.

```
manifest: by_size, methods x_0_1 (x: [1, 3, 32, 32]) and x_0_4 (x: [4, 3, 32, 32])
run(x of [4, 3, 32, 32])  -> x_0_4          run(x of [3, 3, 32, 32])  -> refused: nothing is padded
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgex.errors import RunError

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact
    from edgex.runtime.artifact.manifest import Manifest
    from edgex.runtime.artifact.specs import TensorSpec

Shapes = tuple[tuple[int, ...], ...]


def shape_of(value: Any) -> tuple[int, ...]:
    """The sizes of whatever a Session takes for a tensor; a number has none."""
    return tuple(int(size) for size in getattr(value, "shape", ()))


class SizeTable:
    """The methods of an artifact by the sizes of their inputs."""

    def __init__(self, manifest: Manifest) -> None:
        """Read them off.

        Args:
            manifest: Of an artifact whose methods are chosen by size.
        """
        self._inputs: tuple[TensorSpec, ...] = manifest.methods[0].inputs
        self._methods: dict[Shapes, str] = {
            tuple(spec.static_shape or () for spec in method.inputs): method.name for method in manifest.methods
        }

    def find(self, values: Sequence[Any]) -> str | None:
        """The method for arrays in the order of the inputs; None where none has these sizes."""
        return self._methods.get(tuple(shape_of(value) for value in values))

    def refuse(self, values: Sequence[Any]) -> RunError:
        """The error for sizes that no method has."""
        given = ", ".join(f"{spec.name} {_text(shape_of(v))}" for spec, v in zip(self._inputs, values, strict=True))
        known = [
            ", ".join(f"{spec.name} {_text(shape)}" for spec, shape in zip(self._inputs, shapes, strict=True))
            for shapes in self._methods
        ]
        return RunError(
            f"the artifact has no method for these sizes: {given}",
            why=f"it was made for: {'; or '.join(known)}",
            fix="give inputs of one of these sizes, or export again with this size among --sizes",
        )


def select_by_size(artifact: Artifact, arrays: Mapping[str, Any]) -> Artifact:
    """The artifact with the method for these inputs; itself where a method is selected, or is not chosen by size.

    Args:
        artifact: As it was opened.
        arrays: By input name.

    Raises:
        RunError: No method has these sizes.
    """
    manifest = artifact.manifest
    names = [spec.name for spec in manifest.method.inputs]
    if not manifest.by_size or manifest.selected is not None or set(arrays) != set(names):
        return artifact
    table, values = SizeTable(manifest), [arrays[name] for name in names]
    name = table.find(values)
    if name is None:
        raise table.refuse(values)
    return artifact.select(name)


def _text(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"
