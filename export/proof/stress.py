"""Inputs that find what an example does not: other magnitudes, other memory orders, the ends of dynamic dimensions.

Made from the example inputs, seeded: the same model gives the same cases on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgex.export.proof.case_names import ALL_AT, CHANNELS_LAST, RESHUFFLED, SCALED, TRANSPOSED
from edgex.runtime.artifact.golden import STRESS, Arrays, Layout
from edgex.runtime.artifact.shapes import SPECIAL_INPUTS
from edgex.runtime.artifact.specs import Dim, TensorSpec

SEED = 20260713

# Far enough from an ordinary example to leave its range; fp16 ends at 65504, so its inputs grow less.
LARGE_FACTOR: Mapping[str, float] = {"fp32": 16.0, "bf16": 16.0, "fp16": 4.0}
TINY_FACTOR = 1e-3
SPECIAL_VALUES: Mapping[str, Sequence[float]] = dict(
    zip(SPECIAL_INPUTS, ((math.nan,), (math.inf, -math.inf)), strict=True)
)


@dataclass(frozen=True)
class StressInput:
    """Inputs for one case, before eager has answered them.

    Attributes:
        name: For people.
        inputs: Arrays by input name, contiguous.
        layout: The memory order in which they are handed over.
        must_be_refused: The session has to reject them.
        only_reported: What the artifact makes of them is told and not judged.
        alternative: Plainer inputs of the same shapes, tried when eager raises on `inputs`.
    """

    name: str
    inputs: Arrays
    layout: Layout = "contiguous"
    must_be_refused: bool = False
    alternative: Arrays | None = None
    only_reported: bool = False


def make_stress_inputs(
    specs: Sequence[TensorSpec], example: Arrays, precision: str = "fp32", *, quantized: bool = False
) -> list[StressInput]:
    """All stress cases for a model.

    Args:
        specs: The model's inputs.
        example: The example inputs by name.
        precision: The artifact's precision; bounds how large the large inputs are.
        quantized: Whether the artifact computes with integers, which know no NaN and no infinity.
    """
    random = np.random.default_rng(SEED)
    cases: list[StressInput] = []
    if any(array.dtype.kind in "fc" and array.size for array in example.values()):
        large = LARGE_FACTOR[precision]
        factors = dict(zip(SCALED, (large, -large, TINY_FACTOR, -1.0, 0.0), strict=True))
        cases += [StressInput(f"{STRESS}{name}", _scale(example, factor)) for name, factor in factors.items()]
        for name, values in ({} if quantized else SPECIAL_VALUES).items():
            strewn = _strew(example, values, np.random.default_rng(SEED))
            cases.append(StressInput(f"{STRESS}{name}", strewn, only_reported=True))
    if any(array.dtype.kind in "iub" and array.size > 1 for array in example.values()):
        cases.append(StressInput(RESHUFFLED, _reshuffle(example, "iub", random)))
    shuffled = _reshuffle(example, "fc", random)
    if any(array.ndim >= 2 for array in example.values()):
        cases.append(StressInput(TRANSPOSED, shuffled, "transposed"))
    if any(array.ndim >= 4 for array in example.values()):
        cases.append(StressInput(CHANNELS_LAST, shuffled, "channels_last"))
    return cases + _dynamic_cases(specs, example, random)


def _dynamic_cases(specs: Sequence[TensorSpec], example: Arrays, random: np.random.Generator) -> list[StressInput]:
    """Smallest, middle and largest size of each dimension, all at their ends, and one step outside."""
    dims = {dim.name: dim for spec in specs for dim in spec.shape if isinstance(dim, Dim)}
    cases: list[StressInput] = []

    def sized(name: str, sizes: Mapping[str, int], refused: bool = False) -> None:
        plain = {spec.name: _resize(example[spec.name], spec, sizes) for spec in specs}
        varied = _reshuffle(plain, "fciub", random)
        cases.append(StressInput(name, plain if refused else varied, "contiguous", refused, plain))

    for dim in dims.values():
        for word, size in (("min", dim.min), ("mid", (dim.min + dim.max) // 2), ("max", dim.max)):
            sized(f"{dim.name}={size} ({word})", {dim.name: size})
    if len(dims) > 1:
        sized(ALL_AT["min"], {dim.name: dim.min for dim in dims.values()})
        sized(ALL_AT["max"], {dim.name: dim.max for dim in dims.values()})
    for dim in dims.values():
        if dim.min > 0:
            sized(f"{dim.name}={dim.min - 1} (below min)", {dim.name: dim.min - 1}, refused=True)
        sized(f"{dim.name}={dim.max + 1} (above max)", {dim.name: dim.max + 1}, refused=True)
    return cases


def _strew(example: Arrays, values: Sequence[float], random: np.random.Generator) -> dict[str, np.ndarray]:
    """The example with special values in one of ten places, and each of them at least once where there is room.

    An input whose example holds some is proved with that: a mask of -inf keeps its meaning.
    """
    result: dict[str, np.ndarray] = {}
    for name, array in example.items():
        if not takes_special(array):
            result[name] = array
            continue
        flat = array.reshape(-1).copy()
        count = min(max(flat.size // 10, len(values)), flat.size)
        with np.errstate(over="ignore"):  # the largest numbers of float32 are infinite in float16
            flat[random.permutation(flat.size)[:count]] = np.resize(np.asarray(values), count).astype(flat.dtype)
        result[name] = flat.reshape(array.shape)
    return result


def takes_special(array: np.ndarray) -> bool:
    """Whether special values are strewn into an input."""
    return array.dtype.kind == "f" and array.size > 0 and bool(np.isfinite(array).all())


def _scale(example: Arrays, factor: float) -> dict[str, np.ndarray]:
    """The example's numbers times a factor; what is infinite stays so: a mask of -inf means the same."""
    return {
        name: np.multiply(array, np.asarray(factor, array.dtype), out=array.copy(), where=np.isfinite(array))
        if array.dtype.kind in "fc"
        else array
        for name, array in example.items()
    }


def _reshuffle(arrays: Arrays, kinds: str, random: np.random.Generator) -> dict[str, np.ndarray]:
    """New values of the same distribution: floats and booleans permuted, integers drawn within their range."""
    result: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.dtype.kind not in kinds or array.size == 0:
            result[name] = array
        elif array.dtype.kind in "iu":
            drawn = random.integers(int(array.min()), int(array.max()), array.shape, np.int64, endpoint=True)
            result[name] = np.asarray(drawn, array.dtype)
        else:
            result[name] = random.permutation(array.reshape(-1)).reshape(array.shape)
    return result


def _resize(array: np.ndarray, spec: TensorSpec, sizes: Mapping[str, int]) -> np.ndarray:
    """Repeat or cut the example along its dynamic dimensions."""
    for axis, dim in enumerate(spec.shape):
        if isinstance(dim, Dim) and dim.name in sizes:
            indices = np.arange(sizes[dim.name]) % max(array.shape[axis], 1)
            array = np.take(array, indices, axis=axis)
    return np.ascontiguousarray(array) if array.ndim else array


def in_plain_form(case: StressInput) -> StressInput:
    """The same case with its plainer inputs."""
    return case if case.alternative is None else replace(case, inputs=case.alternative, alternative=None)
