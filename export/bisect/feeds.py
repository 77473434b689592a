"""What a bisection feeds: the cases that failed, up to the run that was wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from edgex.export.bisect.parts.recording import Feed
from edgex.export.bisect.subject import RUN
from edgex.export.quantization.running import GraphRunner
from edgex.runtime.artifact.golden import Case, Step

if TYPE_CHECKING:
    from edgex.delegates.base import CapturedProgram
    from edgex.export.bisect.report import CaseFigure
    from edgex.export.bisect.subject import Subject
    from edgex.export.target_model import TargetModel

# On how many of the cases that failed parts are judged, all at once.
MOST_CASES = 3


def method_at_fault(model: TargetModel, wrong: Sequence[CaseFigure]) -> TargetModel:
    """The method whose run was wrong first; where nothing says which, the first.

    Args:
        model: The artifact's, with its other methods.
        wrong: The cases that failed, the worst first.
    """
    name = next((figure.method for figure in wrong if figure.method is not None), None)
    return model if name is None else find_method(model, name)


def _find_run(figure: CaseFigure, cases: Mapping[str, Case]) -> tuple[Case, int] | None:
    """The case that a verdict names, and how many of its runs lead to what was wrong; None for another method's."""
    match = None if figure.name in cases else RUN.fullmatch(figure.name)
    case = cases.get(figure.name if match is None else match["case"])
    others = match is not None and match["method"] is not None
    if case is None or not (others or figure.method is None or case.method in (None, figure.method)):
        return None
    return case, 1 if match is None else int(match["step"])


def cases_for(model: TargetModel, own: TargetModel) -> list[Case]:
    """What an artifact has to prove, a method's own cases first: methods may have cases of the same name.

    Args:
        model: The artifact's, with its other methods.
        own: One of them.
    """
    return [*own.cases, *(case for other in model.methods if other is not own for case in other.cases)]


def feeds_of(subject: Subject, program: CapturedProgram) -> list[Feed]:
    """The worst cases in which this method was wrong, those with the sizes of the first.

    Args:
        subject: The artifact.
        program: Gives the order of the inputs, and their types.
    """
    own = subject.model
    # The method's own come first.
    cases = {case.name: case for case in reversed(subject.cases) if case.kind == "compare"}
    chosen: dict[str, tuple[Case, int]] = {}
    for figure in subject.wrong:
        run = _find_run(figure, cases)
        if run is not None and _method_of(subject, *run) is own:
            chosen.setdefault(run[0].name, run)
    if not chosen:
        # Of a case whose first runs are another method's, the first that is this one's.
        runs = ((case, at) for case in reversed(cases.values()) for at in range(1, len(case.steps) + 1))
        first = next(run for run in runs if _method_of(subject, *run) is own)
        chosen[first[0].name] = first
    feeds: list[Feed] = []
    for case, count in chosen.values():
        feed = _make_feed(subject, program, case, count)
        if not feeds or _sizes(feed) == _sizes(feeds[0]):
            feeds.append(feed)
    return feeds[:MOST_CASES]


def _make_feed(subject: Subject, program: CapturedProgram, case: Case, count: int) -> Feed:
    """Runs of one method from the start; where other methods run between them, the last from the state before it."""
    steps = case.steps[:count]
    if all(_method_of(subject, case, at + 1) is subject.model for at in range(count)):
        return Feed(case.name, tuple(_tensors(program, step) for step in steps))
    runners = {id(method): GraphRunner(method.program) for method in subject.methods}
    first, *others = runners.values()
    first.share_state(others)
    for at, step in enumerate(steps[:-1]):
        method = _method_of(subject, case, at + 1)
        runners[id(method)].run(_tensors(method.program, step))
    return Feed(case.name, (_tensors(program, steps[-1]),), first.state)


def _method_of(subject: Subject, case: Case, count: int) -> TargetModel:
    """What runs the last of so many runs."""
    return find_method(subject.whole, case.steps[count - 1].method or case.method)


def find_method(model: TargetModel, name: str | None) -> TargetModel:
    """The method of a name; a decoder's program is both `prefill` and `decode`, and what no name is given for.

    Args:
        model: The artifact's, with its other methods.
        name: Of one that it has; None is the only one, a decoder, or the first.
    """
    named = next((own for own in model.methods if own.source.method == name), None)
    speaks = (own for own in model.methods if own.source.language is not None)
    return named or next(speaks, model)


def _tensors(program: CapturedProgram, step: Step) -> tuple[torch.Tensor, ...]:
    return tuple(
        torch.from_numpy(np.array(step.inputs[spec.name])).to(getattr(torch, spec.dtype)) for spec in program.inputs
    )


def _sizes(feed: Feed) -> list[tuple[int, ...]]:
    return [tuple(tensor.shape) for tensor in feed.steps[-1]]
