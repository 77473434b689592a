"""How far eager's own answer moves when the last bits of its inputs or of its weights do.

Where that is far, rounding decides the answer: any engine that rounds at other places is as far from eager as eager is
from itself. Moved inputs show what the first layers enlarge; moved weights imitate rounding in every layer (an
EfficientNet on inputs sixteen times too large: 57 dB by its inputs, 15 dB by its weights).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from edgex.runtime.artifact.golden import Case
from edgex.runtime.session.numerics import EXACT_SQNR_DB, measure_sqnr_db

if TYPE_CHECKING:
    from edgex.export.source.eager import EagerModel

# How far a number is moved: the last bit. Inputs as a share of their largest value, weights of their own.
_MOVED_BY = float(np.finfo(np.float32).eps)
# One time in three two scores that are nearly equal keep their order.
_MOVES_OF_INPUTS = 3
_MOVES_OF_WEIGHTS = 4


def measure_movement_db(case: Case, cases: Sequence[Case], eager: EagerModel) -> dict[str, float] | None:
    """SQNR in dB of eager's outputs against those where last bits differ; the least of a few.

    Args:
        case: Whose inputs are moved, by a share of their largest value, or of the example's where all are zero.
        cases: Those of the artifact, the example's among them.
        eager: The user's model; its weights are as they were afterwards.

    Returns:
        By output; integers are equal or not. None where no input has last bits, or eager fails.
    """
    answers = _answers_of_moved(case, cases, eager)
    if answers is None:
        return None
    found = dict.fromkeys(case.steps[0].outputs, EXACT_SQNR_DB)
    for answer in answers:
        for name, moved in answer.items():
            expected = case.steps[0].outputs[name]
            if moved.dtype.kind == "f":
                distance_db = measure_sqnr_db(expected, moved)
            else:
                distance_db = EXACT_SQNR_DB if np.array_equal(expected, moved) else -EXACT_SQNR_DB
            found[name] = min(found[name], distance_db)
    return found


def measure_largest_move(case: Case, cases: Sequence[Case], eager: EagerModel) -> dict[str, float] | None:
    """How far single numbers of eager's float outputs move where last bits differ, by output; the most of a few.

    Args:
        case: See `measure_movement_db`.
        cases: Those of the artifact.
        eager: The user's model.
    """
    answers = _answers_of_moved(case, cases, eager)
    if answers is None:
        return None
    found: dict[str, float] = {}
    for answer in answers:
        for name, moved in answer.items():
            if moved.dtype.kind == "f" and moved.size:
                distance = np.abs(moved.astype(np.float64) - case.steps[0].outputs[name])
                found[name] = max(found.get(name, 0.0), float(np.nan_to_num(distance).max()))
    return found


def answers_nearby(
    case: Case, cases: Sequence[Case], eager: EagerModel, share: float, runs: int
) -> list[dict[str, np.ndarray]] | None:
    """All of `iterate_nearby`; None where eager fails."""
    found: list[dict[str, np.ndarray]] = []
    for answer in iterate_nearby(case, cases, eager, share, runs):
        if answer is None:
            return None
        found.append(answer)
    return found


def iterate_nearby(
    case: Case, cases: Sequence[Case], eager: EagerModel, share: float, runs: int, *, rounding: float = 0.0
) -> Iterator[dict[str, np.ndarray] | None]:
    """Eager's outputs where inputs and weights differ by a share of their size; None where eager fails.

    Args:
        case: Whose inputs are moved, by a share of their largest value.
        cases: Those of the artifact.
        eager: The user's model; its weights are as they were afterwards.
        share: How far, at most.
        runs: How many answers.
        rounding: How far results of operators are off in every other of them, as a share of themselves.
    """
    from edgex.export.proof.references.rounding import RoundedDifferently

    largest = _largest_of(case, cases)
    for seed in range(runs):
        changes = contextlib.ExitStack()
        changes.enter_context(moved_weights(eager.module, seed, share))
        if rounding and seed % 2:
            changes.enter_context(RoundedDifferently(seed, rounding))
        yield _answer(eager, _moved(case.steps[0].inputs, largest, seed, share), changes)


def _answers_of_moved(case: Case, cases: Sequence[Case], eager: EagerModel) -> list[dict[str, np.ndarray]] | None:
    """Eager's outputs where last bits or memory orders differ; None where no input has last bits, or eager fails."""
    step = case.steps[0]
    if not any(array.dtype == np.float32 and array.size for array in step.inputs.values()):
        return None
    largest = _largest_of(case, cases)
    found = []
    # Inputs in another memory order have eager sum in another order: row by row is what engines are handed.
    for seed in range(0 if case.layout == "contiguous" else -1, _MOVES_OF_INPUTS + _MOVES_OF_WEIGHTS):
        inputs: Mapping[str, np.ndarray] = step.inputs
        weights: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if 0 <= seed < _MOVES_OF_INPUTS:
            inputs = _moved(step.inputs, largest, seed)
        elif seed > 0:
            weights = moved_weights(eager.module, seed)
        answer = _answer(eager, inputs, weights)
        if answer is None:
            return None
        found.append(answer)
    return found


def _answer(
    eager: EagerModel, inputs: Mapping[str, np.ndarray], weights: contextlib.AbstractContextManager[Any]
) -> dict[str, np.ndarray] | None:
    """Eager's outputs by name with such inputs and weights; None where it fails."""
    eager.reset()
    try:
        with weights:
            answers = eager.run(tensors_of(inputs, eager))
    except Exception:  # the user's own code, which may check its inputs
        return None
    finally:
        eager.reset()
    return {
        spec.name: (tensor.float() if tensor.dtype.is_floating_point else tensor).numpy()
        for spec, tensor in zip(eager.outputs, answers, strict=True)
    }


def _largest_of(case: Case, cases: Sequence[Case]) -> dict[str, float]:
    """The largest value of each input, or of the example's where all are zero."""
    step = case.steps[0]
    ordinary = next((other.steps[0].inputs for other in cases if other.steps), step.inputs)
    return {name: _largest(array) or _largest(ordinary[name]) for name, array in step.inputs.items()}


@contextlib.contextmanager
def moved_weights(module: Any, seed: int, share: float = _MOVED_BY) -> Iterator[None]:
    """Within it, each float32 parameter is off by at most a share, its last bit; then it is the same tensor as before.

    Buffers stay: they may be tables, masks and state.
    """
    import torch

    generator = torch.Generator().manual_seed(seed)
    tensors = [*module.parameters()] if isinstance(module, torch.nn.Module) else []
    saved = [(tensor, tensor.data) for tensor in tensors if tensor.dtype == torch.float32 and not tensor.is_inference()]
    try:
        for tensor, data in saved:
            noise = torch.rand(data.shape, generator=generator) * 2 - 1
            tensor.data = data * (1 + noise * share)
        yield
    finally:
        for tensor, data in saved:
            tensor.data = data


def tensors_of(arrays: Mapping[str, np.ndarray], eager: EagerModel) -> list[Any]:
    """Arrays by input name as tensors in the order and dtypes that eager takes."""
    import torch

    return [torch.from_numpy(np.array(arrays[spec.name])).to(getattr(torch, spec.dtype)) for spec in eager.inputs]


def _moved(
    arrays: Mapping[str, np.ndarray], largest: Mapping[str, float], seed: int, share: float = _MOVED_BY
) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        name: array + (random.uniform(-1, 1, array.shape) * share * largest[name]).astype(array.dtype)
        if array.dtype == np.float32
        else array
        for name, array in arrays.items()
    }


def _largest(array: np.ndarray) -> float:
    finite = np.abs(array[np.isfinite(array)]) if array.dtype.kind == "f" else np.zeros(0)
    return float(finite.max()) if finite.size else 0.0
