"""The pipeline's fifth stage: the target's native files, and whether the delegate kept to its contract."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from edgex.delegates.base import LowersMethods
from edgex.delegates.plan import advise_of_text, merge_plans, reads_size
from edgex.errors import LoweringError, VerificationError

if TYPE_CHECKING:
    from edgex.delegates.base import CapturedProgram, LoweredModule
    from edgex.delegates.plan import PartitionPlan
    from edgex.export.target_model import TargetModel
    from edgex.runtime.artifact.manifest import Method

# Below this share of delegated work an artifact is written with a warning; --min-delegation makes it an error.
WARN_BELOW_DELEGATION = 0.9
# From so many calls of the delegate on, what lies between them is likely to take more time than its share of the work.
WARN_FROM_CALLS = 10


def lower_model(model: TargetModel) -> LoweredModule:
    """Lower a model for its target, all its methods at once.

    Raises:
        LoweringError: The delegate refuses it, changed its signature, or dropped state of it.
    """
    try:
        lowered = _lower(model)
    except LoweringError as error:
        # What no kernel takes may be what a rewrite would have written otherwise.
        dropped = dict.fromkeys(sentence for own in model.methods for sentence in own.rewritten.dropped)
        error.why = "; ".join(filter(None, (error.why, *dropped)))
        raise
    for own, method in zip(model.methods, lowered.methods, strict=True):
        _check_contract(own.program, method)
    return replace(lowered, plan=_advised(model, lowered.plan))


def _lower(model: TargetModel) -> LoweredModule:
    delegate, options = model.job.delegate, model.job.options
    if model.source.method is None:
        return delegate.lower(model.program, options)
    assert isinstance(delegate, LowersMethods)  # asked when the model was found
    return delegate.lower_methods({str(own.source.method): own.program for own in model.methods}, options)


def plan_model(model: TargetModel) -> PartitionPlan:
    """What the target would take and leave of a model; its weights are not lowered.

    Raises:
        LoweringError: The delegate cannot even partition it.
    """
    plans = [model.job.delegate.plan(own.program, model.job.options) for own in model.methods]
    return _advised(model, merge_plans(plans))


def _advised(model: TargetModel, plan: PartitionPlan) -> PartitionPlan:
    of_text = any(own.source.language is not None for own in model.methods)
    return advise_of_text(plan) if of_text else plan


_SHARE_OF = {
    "work": "work is counted in multiply-adds, as --min-delegation is; `edgex profile` shows the share of the time",
    "operators": "operators are counted, since their work is unknown; `edgex profile` shows the share of the time",
}


def check_delegation(plan: PartitionPlan, least: float | None, target: str) -> tuple[str, ...]:
    """The gate of --min-delegation, or the warning that stands in for it.

    Args:
        plan: What was taken and left.
        least: Least share of the work, of the operators where work is unknown; None is no gate.
        target: For the message.

    Raises:
        VerificationError: Less is delegated than the user asked for.
    """
    share = plan.fraction if plan.work_fraction is None else plan.work_fraction
    kind = "operators" if plan.work_fraction is None else "work"
    listed = [f for f in plan.fallbacks if not reads_size(f.op)]
    left = ", ".join(f"{f.count} x {f.op} ({f.code}{f', {f.source}' if f.source else ''})" for f in listed[:4])
    left += f" +{len(listed) - 4} more" if len(listed) > 4 else ""
    if least is not None and share < least:
        raise VerificationError(
            f"{target} takes {share:.0%} of the {kind}, --min-delegation asks for {least:.0%}",
            why=f"{_SHARE_OF[kind]}\nleft out: {left or 'nothing'}",
            fix="try another --target, or lower --min-delegation",
        )
    warnings = []
    if share < WARN_BELOW_DELEGATION:
        warnings.append(f"{target} takes {share:.0%} of the {kind}; left out: {left}")
    if plan.delegate_calls >= WARN_FROM_CALLS:
        warnings.append(
            f"{target} is called {plan.delegate_calls} times in a run, and every call takes time beside its work: "
            f"{share:.0%} of the {kind} may be less of the time, which `edgex profile` shows; between the calls: {left}"
        )
    return tuple(warnings)


def _check_contract(program: CapturedProgram, method: Method) -> None:
    """A delegate keeps the signature, and every state tensor."""
    if method.inputs != program.inputs or method.outputs != program.outputs:
        raise LoweringError("the delegate changed the signature of the program", why=f"it is {method}")
    if {state.name for state in method.state} != {state.name for state in program.state}:
        raise LoweringError(
            "the delegate dropped state that the model keeps between runs",
            why=f"the model has {[s.name for s in program.state]}, the result {[s.name for s in method.state]}",
        )
