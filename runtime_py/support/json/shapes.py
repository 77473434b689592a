"""What a JSON document must look like, said once as a value, and checked before anything reads from it.

```python
ENTRY = Object({"path": Text(), "bytes": Integer(0), "sha256": Text(r"[0-9a-f]{64}")})
Object({"files": List(ENTRY)}).check(document, "manifest.json")
```

Fields that a shape does not name are accepted as they are: a later version may add some.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgex.runtime.support.printable import CONTROL, CONTROL_BUT_LINES


class Shape:
    """One kind of value."""

    def check(self, value: Any, where: str) -> None:
        """Let a value through.

        Raises:
            ValueError: It is not of this shape; the message says where, and what is there instead.
        """
        self._check(value, where)

    def _check(self, value: Any, where: str) -> None:
        """As `check`, of one kind of shape."""


@dataclass(frozen=True)
class Anything(Shape):
    """What nobody reads by its type."""


@dataclass(frozen=True)
class Text(Shape):
    """A string on one line.

    Attributes:
        pattern: What all of it must match.
        meaning: What is wrong with a text that does not.
        lines: It may have several lines.
        any_letters: Control characters are accepted.
    """

    pattern: str | None = None
    meaning: str = "not of the form that it must have"
    lines: bool = False
    any_letters: bool = False
    max_letters: int = 100_000

    def _check(self, value: Any, where: str) -> None:
        if not isinstance(value, str):
            raise ValueError(f"{where} is {_shown(value)}, not a text")
        if len(value) > self.max_letters:
            raise ValueError(f"{where} has {len(value):,} letters; at most {self.max_letters:,} are read")
        if not self.any_letters and (CONTROL_BUT_LINES if self.lines else CONTROL).search(value):
            raise ValueError(f"{where} holds control characters: {_shown(value)}")
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            raise ValueError(f"{where} is {_shown(value)}: {self.meaning}")


@dataclass(frozen=True)
class OneOf(Shape):
    """One of a few texts."""

    values: Collection[str]

    def _check(self, value: Any, where: str) -> None:
        if not isinstance(value, str) or value not in self.values:
            raise ValueError(f"{where} is {_shown(value)}, none of {', '.join(sorted(self.values))}")


@dataclass(frozen=True)
class Integer(Shape):
    """A whole number within bounds."""

    least: int = -(1 << 63)
    most: int = (1 << 63) - 1

    def _check(self, value: Any, where: str) -> None:
        if type(value) is not int:
            raise ValueError(f"{where} is {_shown(value)}, not a whole number")
        if not self.least <= value <= self.most:
            raise ValueError(f"{where} is {_shown(value)}, outside {self.least}..{self.most}")


@dataclass(frozen=True)
class Number(Shape):
    """A number within bounds."""

    least: float | None = None
    most: float | None = None

    def _check(self, value: Any, where: str) -> None:
        if type(value) not in (int, float) or abs(value) > 1e300:
            raise ValueError(f"{where} is {_shown(value)}, not a number")
        if (self.least is not None and value < self.least) or (self.most is not None and value > self.most):
            raise ValueError(f"{where} is {_shown(value)}, out of bounds")


@dataclass(frozen=True)
class Truth(Shape):
    """True or false."""

    def _check(self, value: Any, where: str) -> None:
        if not isinstance(value, bool):
            raise ValueError(f"{where} is {_shown(value)}, neither true nor false")


@dataclass(frozen=True)
class Optional(Shape):
    """A value or null."""

    shape: Shape

    def _check(self, value: Any, where: str) -> None:
        if value is not None:
            self.shape.check(value, where)


@dataclass(frozen=True)
class Either(Shape):
    """One of two shapes; the error is the second's."""

    first: Shape
    second: Shape

    def _check(self, value: Any, where: str) -> None:
        try:
            self.first.check(value, where)
        except ValueError:
            self.second.check(value, where)


@dataclass(frozen=True)
class Both(Shape):
    """Several shapes at once."""

    shapes: tuple[Shape, ...]

    def _check(self, value: Any, where: str) -> None:
        for shape in self.shapes:
            shape.check(value, where)


@dataclass(frozen=True)
class List(Shape):
    """A list of values of one shape."""

    item: Shape
    most: int = 1_000_000
    least: int = 0

    def _check(self, value: Any, where: str) -> None:
        if not isinstance(value, list):
            raise ValueError(f"{where} is {_shown(value)}, not a list")
        if not self.least <= len(value) <= self.most:
            raise ValueError(f"{where} has {len(value):,} entries, not {self.least}..{self.most:,}")
        for number, item in enumerate(value):
            self.item.check(item, f"{where}[{number}]")


@dataclass(frozen=True)
class Map(Shape):
    """An object whose keys are data."""

    value: Shape
    key: Shape = field(default_factory=Text)

    def _check(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{where} is {_shown(value)}, not an object")
        for key, item in value.items():
            self.key.check(key, f"a key of {where}")
            self.value.check(item, f"{where}.{key}")


@dataclass(frozen=True)
class Object(Shape):
    """An object with known fields.

    Attributes:
        fields: Those that must be there.
        optional: Those that may be.
    """

    fields: Mapping[str, Shape]
    optional: Mapping[str, Shape] = field(default_factory=dict)

    def _check(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"{where} is {_shown(value)}, not an object")
        for name, shape in self.fields.items():
            if name not in value:
                raise ValueError(f"{where} has no {name!r}")
            shape.check(value[name], f"{where}.{name}")
        for name, shape in self.optional.items():
            if name in value:
                shape.check(value[name], f"{where}.{name}")


def _shown(value: Any) -> str:
    return ascii(value)[:80]
