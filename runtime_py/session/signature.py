"""What a method takes: names, dtypes and sizes of its inputs, checked before any engine sees them.

Nothing is left to the engines' own checks: ExecuTorch checks dynamic sizes only as a total capacity and reads
channels_last memory as if it were contiguous, both without an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgex.errors import RunError, nearest_name
from edgex.runtime.artifact.language_model import LanguageModel
from edgex.runtime.artifact.manifest import Manifest
from edgex.runtime.artifact.specs import Dim, TensorSpec


class Signature:
    """The inputs of a method.

    Attributes:
        inputs: What it takes, in order.
    """

    def __init__(self, inputs: Sequence[TensorSpec], llm: LanguageModel | None = None) -> None:
        """What is checked.

        Args:
            inputs: What the method takes, in order.
            llm: Of a language model: what bounds tokens and positions.
        """
        self.inputs = tuple(inputs)
        self._llm = llm
        # (dtype, static shape or None) for each input: what `fits` compares with.
        self._expected = [(spec.numpy_dtype, spec.static_shape) for spec in self.inputs]
        self._has_dims = not all(spec.is_static for spec in self.inputs)
        self._input_names = tuple(spec.name for spec in self.inputs)

    @classmethod
    def of(cls, manifest: Manifest) -> Signature:
        """That of the method that is meant."""
        return cls(manifest.method.inputs, manifest.language_method)

    def prepare(self, *args: Any, **kwargs: Any) -> list[np.ndarray]:
        """Check inputs.

        Args:
            *args: Inputs in order: NumPy arrays, torch tensors, or anything with `__dlpack__`; or one mapping from
                names to them, such as a tokenizer gives.
            **kwargs: Inputs by name.

        Returns:
            C-contiguous arrays in the manifest's order and dtypes; an array that is already so is not copied.

        Raises:
            RunError: An input is missing, unknown, of another dtype or shape.
        """
        values = self.bind(*args, **kwargs)
        arrays = [self._convert(value, spec) for value, spec in zip(values, self.inputs, strict=True)]
        if self._has_dims:
            self._check_shared_dims(arrays)
        if self._llm is not None and (fault := self._llm.fault(*arrays)):
            raise fault
        return arrays

    def bind(self, *args: Any, **kwargs: Any) -> Sequence[Any]:
        """The inputs as they are given, in the manifest's order; their dtypes and sizes are not looked at.

        Args:
            *args: As for `prepare`.
            **kwargs: As for `prepare`.

        Raises:
            RunError: An input is missing or unknown.
        """
        positional: tuple[Any, ...] = args
        if len(args) == 1 and isinstance(args[0], Mapping):
            positional, kwargs = (), {**_texts(args[0]), **kwargs}
        fits = not kwargs and len(positional) == len(self._expected)
        return positional if fits else self._bind(positional, kwargs)

    def prepare_named(self, *args: Any, **kwargs: Any) -> dict[str, np.ndarray]:
        """As `prepare`; the arrays by name."""
        return dict(zip(self._input_names, self.prepare(*args, **kwargs), strict=True))

    def fits(self, values: Sequence[Any]) -> bool:
        """Whether the values are arrays that the engine can take as they are: decided in about 0.5 us."""
        if len(values) != len(self._expected):
            return False
        # As long as each other; `strict` would look again, for 0.13 us.
        for value, (dtype, shape) in zip(values, self._expected):  # noqa: B905
            if type(value) is not np.ndarray or value.dtype != dtype or value.shape != shape:
                return False
            if not value.flags.c_contiguous:
                return False
        return self._llm is None or self._llm.fault(*values) is None

    def _bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Positional and named inputs in the manifest's order."""
        takes = f"the artifact takes {', '.join(str(spec) for spec in self.inputs) or 'no inputs'}"
        if len(args) > len(self.inputs):
            raise RunError(f"{len(args)} inputs given, {len(self.inputs)} expected", why=takes)
        bound = dict(zip(self._input_names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self._input_names:
                raise RunError(f"unknown input {name!r}", why=nearest_name(name, self._input_names))
            if name in bound:
                raise RunError(f"input {name!r} is given twice", why=takes)
            bound[name] = value
        missing = [name for name in self._input_names if name not in bound]
        if missing:
            raise RunError(f"missing input{'s' if len(missing) > 1 else ''}: {', '.join(missing)}", why=takes)
        return [bound[name] for name in self._input_names]

    def _convert(self, value: Any, spec: TensorSpec) -> np.ndarray:
        """Any accepted value as a C-contiguous array of the right dtype and shape, or a RunError."""
        array = _as_array(value, spec)
        if array.dtype != spec.numpy_dtype:
            raise RunError(
                f"input {spec.name!r} is {array.dtype}, the artifact takes {spec.dtype}",
                fix=f"convert it: {spec.name}.astype('{spec.numpy_dtype}')",
            )
        if array.ndim != len(spec.shape):
            raise RunError(f"input {spec.name!r} has shape {array.shape}, the artifact takes {spec}")
        for axis, (size, dim) in enumerate(zip(array.shape, spec.shape, strict=True)):
            if isinstance(dim, Dim):
                if not dim.min <= size <= dim.max:
                    raise RunError(
                        f"input {spec.name!r} has size {size} in dimension {axis}, outside {dim}",
                        fix="export again with wider bounds for this dimension",
                    )
            elif size != dim:
                raise RunError(
                    f"input {spec.name!r} has shape {array.shape}, the artifact takes {spec}",
                    fix=f"dimension {axis} is fixed at {dim}: export with it dynamic if it must vary",
                )
        return np.ascontiguousarray(array) if array.ndim else array

    def _check_shared_dims(self, arrays: Sequence[np.ndarray]) -> None:
        """Dimensions of one name have one size: `batch` of every input."""
        sizes: dict[str, tuple[int, str]] = {}
        for array, spec in zip(arrays, self.inputs, strict=True):
            for size, dim in zip(array.shape, spec.shape, strict=True):
                if isinstance(dim, Dim):
                    first, owner = sizes.setdefault(dim.name, (size, spec.name))
                    if first != size:
                        raise RunError(
                            f"dimension {dim.name!r} is {first} in input {owner!r} and {size} in input {spec.name!r}",
                            fix="give both the same size",
                        )


def _texts(mapping: Mapping[Any, Any]) -> dict[str, Any]:
    """Inputs by name, whatever the keys are."""
    return {str(name): value for name, value in mapping.items()}


def _as_array(value: Any, spec: TensorSpec) -> np.ndarray:
    """NumPy, torch or DLPack as an array, sharing memory where that is possible."""
    if isinstance(value, np.ndarray):
        if np.ma.is_masked(value):
            raise RunError(
                f"input {spec.name!r} is a masked array, and an engine knows no mask",
                fix=f"say what stands in the masked places: {spec.name}.filled(0)",
            )
        return np.asarray(value)
    if isinstance(value, (bool, int, float, np.generic)) and not spec.shape:
        return np.asarray(value, dtype=spec.numpy_dtype)
    if type(value).__module__.split(".")[0] == "torch" and hasattr(value, "detach"):
        return _from_torch(value, spec)
    if hasattr(value, "__dlpack__"):
        try:
            return np.from_dlpack(value)
        except (RuntimeError, TypeError, ValueError, BufferError) as error:
            raise RunError(f"input {spec.name!r} cannot be read through DLPack", why=str(error)) from error
    raise RunError(
        f"input {spec.name!r} is a {type(value).__name__}, not a tensor",
        fix=f"give a NumPy array of {spec.numpy_dtype}, a torch tensor or an object with __dlpack__",
    )


def _from_torch(value: Any, spec: TensorSpec) -> np.ndarray:
    """A torch tensor as an array; without values (meta) or without places for all of them (sparse) it is refused."""
    try:
        tensor = value.detach().cpu()
        if str(tensor.dtype) == "torch.bfloat16" and spec.dtype != "bfloat16":
            raise RunError(
                f"input {spec.name!r} is bfloat16, the artifact takes {spec.dtype}",
                fix=f"convert it: {spec.name}.to(torch.{spec.dtype})",
            )
        # bfloat16 has no NumPy dtype; float32 holds each of its values.
        tensor = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
        return np.asarray(tensor.resolve_conj().resolve_neg().numpy())
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise RunError(
            f"input {spec.name!r} is a torch tensor that cannot be read as an array "
            f"(device {value.device}, layout {value.layout})",
            fix="give a dense tensor that holds values, for example x.to_dense()",
            why=str(error).partition("\n")[0],
        ) from error
