"""Steps in a row that show what a model keeps from one run to the next.

A cache whose place is an input shows nothing where the example is repeated: each run writes what it wrote before. Then
the steps come to the example from places before it:

```
example:  tokens: int64[1, 4], position: int64[] = 7
steps:    position 4, 5, 6, 7; the last one is the example
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from edgex.runtime.artifact.golden import Arrays, Case, Step

# A stateful model is run at least this often in a row: a dropped state is right at step 1 and wrong from step 2.
SEQUENCE_STEPS = 4

STATE_NOT_SHOWN = "the outputs of the steps are those of a fresh start: these inputs do not show the state"

# From inputs, and whether the model is as it was at the start.
Answer = Callable[[Arrays, bool], Step]


def make_sequence_case(answer: Answer, given: Sequence[Arrays], example: Arrays) -> Case:
    """Steps in a row whose outputs the state really changes; else a skipped case that says what is missing.

    Args:
        answer: Runs eager.
        given: The user's own steps; empty where the file has none.
        example: The example's inputs.
    """
    steps_in = list(given) or [example] * SEQUENCE_STEPS
    while len(steps_in) < SEQUENCE_STEPS:
        steps_in.append(steps_in[-1])
    name = f"state: {len(steps_in)} steps in a row"
    steps = _steps_that_show(answer, steps_in)
    if steps is None and not given:
        for varied in _variations(example):
            try:
                steps = _steps_that_show(answer, varied)
            except Exception:  # the user's own code, which may not take inputs that nobody gave
                continue
            if steps is not None:
                break
    if steps is None:
        return Case(name, "skipped", reason=STATE_NOT_SHOWN)
    return Case(name, "compare", steps)


def _steps_that_show(answer: Answer, steps_in: Sequence[Arrays]) -> tuple[Step, ...] | None:
    """The answers, where one of them is another one than after a fresh start."""
    fresh = [answer(inputs, True).outputs for inputs in steps_in[1:]]
    steps = [answer(inputs, at == 0) for at, inputs in enumerate(steps_in)]
    for step, alone in zip(steps[1:], fresh, strict=True):
        if any(not np.array_equal(step.outputs[key], alone[key], equal_nan=True) for key in alone):
            return tuple(steps)
    return None


def _variations(example: Arrays) -> Iterator[list[Arrays]]:
    """Other steps to try: integers that count up to the example's, one by one or by as many as are given at a time."""
    integers = [name for name, array in example.items() if array.dtype.kind in "iu" and array.size]
    for names in [integers] if len(integers) == 1 else [integers, *([name] for name in integers)]:
        for stride in dict.fromkeys([1, *(_span(example[name]) for name in names)]):
            yield [
                {
                    name: _counted_down(array, (SEQUENCE_STEPS - 1 - at) * stride)
                    if name in names
                    else _turned(array, at)
                    for name, array in example.items()
                }
                for at in range(SEQUENCE_STEPS)
            ]


def _span(array: np.ndarray) -> int:
    """How many places consecutive positions take."""
    return int(array.max()) - int(array.min()) + 1


def _counted_down(array: np.ndarray, by: int) -> np.ndarray:
    """Integers below the example's, none below zero where its are not."""
    least = min(int(array.min()), 0)
    found: np.ndarray = np.maximum(array.astype(np.int64) - by, least).astype(array.dtype)
    return found


def _turned(array: np.ndarray, by: int) -> np.ndarray:
    """The example's numbers in other places, so that steps differ; at the last step as they are."""
    if array.dtype.kind != "f" or array.size < SEQUENCE_STEPS:
        return array
    found: np.ndarray = np.roll(array.reshape(-1), by - SEQUENCE_STEPS + 1).reshape(array.shape)
    return found
