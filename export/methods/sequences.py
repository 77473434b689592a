"""Runs of several methods in a row, which show the state that they share.

```
encode(source) -> prefill(tokens, 0) -> decode(token, 4) -> decode(token, 4) …
```

Eager gives the answers, with one state for all. Where a method gives the same with a state of its own, the sequence
shows nothing of what it shares: an artifact whose methods each had a state would pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from edgex.errors import VerificationError
from edgex.export.proof.language_cases import runner_of
from edgex.export.proof.sequences import SEQUENCE_STEPS, STATE_NOT_SHOWN
from edgex.export.proof.verification import Answers, AnswersOverMethods, allow_for_rounding
from edgex.runtime.artifact.golden import Arrays, Case, Step

if TYPE_CHECKING:
    from edgex.export.source.example_inputs import Call
    from edgex.export.target_model import TargetModel

# A method, and its inputs by name.
Run = tuple[str, Arrays]


def shared_state(models: Sequence[TargetModel]) -> frozenset[str]:
    """Names of the methods that have state in common with another."""
    states = {str(model.source.method): {spec.name for spec in model.program.state} for model in models}
    return frozenset(
        name for name, own in states.items() if any(own & others for other, others in states.items() if other != name)
    )


def make_shared_case(
    models: Sequence[TargetModel], given: Sequence[tuple[str, Call]] | None, *, allow_inconclusive: bool
) -> Case:
    """The case that shows what methods share: the user's own runs, or the examples in the order of the methods.

    Args:
        models: The methods of an artifact that share state.
        given: `example_sequence` of the user's file; None where there is none.
        allow_inconclusive: Whether a sequence that shows nothing is accepted.

    Raises:
        VerificationError: No method gives anything else than with a state of its own.
    """
    quantized = any(model.quantized is not None for model in models)
    answers = {str(model.source.method): Answers(model.rewritten.program, model.eager) for model in models}
    by_name = {str(model.source.method): model for model in models}
    if given is not None:
        runs = [
            (name, answers[name].arrays_of(by_name[name].eager.flatten(*call)))
            for name, call in given
            if name in answers
        ]
    else:
        runs = [(name, answers[name].arrays_of(model.eager.example)) for name, model in by_name.items()]
        while len(runs) < SEQUENCE_STEPS:
            runs.append(runs[-1])
    steps = _run(answers, runs)
    alone = {name: iter(_run(answers, [run for run in runs if run[0] == name])) for name in answers}
    shown = [not _same(step.outputs, next(alone[name]).outputs) for (name, _), step in zip(runs, steps, strict=True)]
    first = runs[0][0]
    name = f"shared state: {len(runs)} runs of {', '.join(dict.fromkeys(name for name, _ in runs))}"
    if any(shown):
        case = Case(name, "compare", _with_methods(runs, steps), method=first)
        return _as_quantized(case, models, runs, answers) if quantized else case
    if not allow_inconclusive:
        raise VerificationError(
            "the example inputs do not show that the methods share state",
            why=f"{name}: each gives the same with a state of its own",
            fix="define `example_sequence` in the model's file, runs in a row, each with its method: "
            '[("prefill", (tokens, start)), ("decode", (token, position)), …]; or accept this with '
            "--allow-inconclusive",
        )
    return Case(name, "skipped", reason=STATE_NOT_SHOWN, method=first)


def _as_quantized(
    case: Case, models: Sequence[TargetModel], runs: Sequence[Run], in_float: Mapping[str, Answers]
) -> Case:
    """The case with the answers of the quantized programs, which keep one state."""
    runners = {str(model.source.method): runner_of(model) for model in models}
    next(iter(runners.values())).share_state(list(runners.values()))
    answers = {
        str(model.source.method): Answers(model.rewritten.program, runners[str(model.source.method)])
        for model in models
    }
    steps = _with_methods(runs, _run(answers, runs))
    case = replace(case, name=f"{case.name}, as quantized", steps=steps, reference="quantized")
    first = runs[0][0]
    return allow_for_rounding(case, AnswersOverMethods(in_float, first), runs[0][1])


def _with_methods(runs: Sequence[Run], steps: Sequence[Step]) -> tuple[Step, ...]:
    return tuple(replace(step, method=method) for (method, _), step in zip(runs, steps, strict=True))


def _run(answers: Mapping[str, Answers], runs: Sequence[Run]) -> list[Step]:
    return [answers[name].step(inputs, from_reset=at == 0) for at, (name, inputs) in enumerate(runs)]


def _same(one: Arrays, other: Arrays) -> bool:
    return all(np.array_equal(array, other[name], equal_nan=True) for name, array in one.items())
