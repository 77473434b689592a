"""What a tensor at the signature of an artifact looks like: name, dtype, and a size or a range for each dimension."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

# NumPy's view of each dtype that may cross the signature. bfloat16 has no NumPy dtype: it crosses as float32,
# which holds every bfloat16 value exactly; the true dtype stays in the spec.
NUMPY_DTYPES: Mapping[str, np.dtype[Any]] = {
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.float32),
    "int8": np.dtype(np.int8),
    "int16": np.dtype(np.int16),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
    "uint8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
    "complex64": np.dtype(np.complex64),
}


@dataclass(frozen=True)
class Dim:
    """A dimension whose size is chosen at run time.

    Attributes:
        name: What dimensions of equal size share, for example `batch`.
        min: Smallest size, inclusive.
        max: Largest size, inclusive.
    """

    name: str
    min: int
    max: int

    def __str__(self) -> str:
        return f"{self.name}={self.min}..{self.max}"


@dataclass(frozen=True)
class TensorSpec:
    """One input or output.

    Attributes:
        name: The leaf's path in the call, for example `x`, `batch.mask` or `xs.0`.
        dtype: A key of `NUMPY_DTYPES`.
        shape: An int for each static dimension, a `Dim` for each dynamic one.
    """

    name: str
    dtype: str
    shape: tuple[int | Dim, ...]

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype of the arrays that cross the signature for this tensor."""
        return NUMPY_DTYPES[self.dtype]

    @property
    def is_static(self) -> bool:
        """Whether every dimension has one size."""
        return all(isinstance(dim, int) for dim in self.shape)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The sizes, or None when a dimension is dynamic."""
        sizes = tuple(dim for dim in self.shape if isinstance(dim, int))
        return sizes if len(sizes) == len(self.shape) else None

    def __str__(self) -> str:
        dims = ", ".join(str(dim) for dim in self.shape)
        return f"{self.name}: {self.dtype}[{dims}]"

    def to_json(self) -> dict[str, Any]:
        """`{"name", "dtype", "shape"}`, a dynamic dimension as `{"name", "min", "max"}`."""
        shape = [d if isinstance(d, int) else {"name": d.name, "min": d.min, "max": d.max} for d in self.shape]
        return {"name": self.name, "dtype": self.dtype, "shape": shape}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TensorSpec:
        """The inverse of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: The data is not a spec.
        """
        if data["dtype"] not in NUMPY_DTYPES:
            raise ValueError(f"unknown dtype {data['dtype']!r}")
        shape = tuple(
            Dim(str(d["name"]), int(d["min"]), int(d["max"])) if isinstance(d, Mapping) else int(d)
            for d in data["shape"]
        )
        return cls(str(data["name"]), str(data["dtype"]), shape)


@dataclass(frozen=True)
class StateSpec:
    """A tensor that the model keeps between runs (a mutated buffer); the Session carries it.

    Attributes:
        name: The buffer's name in the model, for example `layers.0.cache_k`.
        dtype: A key of `NUMPY_DTYPES`.
        shape: Its static shape.
        input: Name of the native file's hidden input that receives the value; None where the file keeps state itself.
        output: Name of the native file's hidden output that returns the new value; None likewise.
        in_place: Whether both may be the same memory: what writes the new value reads the old one as it goes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    input: str | None = None
    output: str | None = None
    in_place: bool = False

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype of the array that its value is read as."""
        return NUMPY_DTYPES[self.dtype]

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the fields as they are named here."""
        return {
            "name": self.name,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "input": self.input,
            "output": self.output,
            **({"in_place": True} if self.in_place else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StateSpec:
        """The inverse of `to_json`."""
        shape = tuple(int(size) for size in data["shape"])
        in_place = bool(data.get("in_place", False))
        return cls(str(data["name"]), str(data["dtype"]), shape, data["input"], data["output"], in_place)
