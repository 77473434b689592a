"""What a run gives: a tuple whose entries have names."""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex, overload

from edgex.errors import RunError, nearest_name

if TYPE_CHECKING:
    import numpy as np

    # Only for the type checker: at run time, a tuple needs no parameter.
    _Arrays = tuple[np.ndarray, ...]
else:
    _Arrays = tuple


class Outputs(_Arrays):
    """The outputs of a run, in the manifest's order: `(a, b) = session.run(x)`, or by name: `session.run(x)["scores"]`.

    Attributes:
        names: Of the outputs, as `edgex inspect` shows them. The session sets them: a constructor that takes them would
            be a call of Python in every run, 0.12 us of the few that a tiny model's run takes.
    """

    names: tuple[str, ...] = ()

    @overload
    def __getitem__(self, key: SupportsIndex | str) -> np.ndarray: ...

    @overload
    def __getitem__(self, key: slice) -> tuple[np.ndarray, ...]: ...

    def __getitem__(self, key: SupportsIndex | str | slice) -> np.ndarray | tuple[np.ndarray, ...]:
        """An output by name or index.

        Raises:
            RunError: There is no output of this name.
        """
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.names:
            raise RunError(f"no output {key!r}", why=nearest_name(key, self.names))
        return super().__getitem__(self.names.index(key))

    def as_dict(self) -> dict[str, np.ndarray]:
        """The outputs by name."""
        return dict(zip(self.names, self, strict=True))

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={array.dtype}{list(array.shape)}" for name, array in zip(self.names, self, strict=True)
        )
        return f"Outputs({shown})"
