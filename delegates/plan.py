"""What a delegate takes and what it leaves, with the reason and the line for every operator left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

ReasonCode = Literal[
    "dtype",
    "dynamic_shape",
    "rank",
    "attribute",
    "non_constant_weight",
    "no_kernel",
    "not_in_delegate",
    "excluded",
]


def reads_size(op: str) -> bool:
    """Whether an operator only reads a size that a run has (`aten.sym_size.int`): it is on no line of the user's."""
    return op.startswith(("aten.sym_size", "aten.sym_stride", "aten.sym_numel", "aten.sym_storage_offset"))


# What each code means; `not_in_delegate` only where the delegate has no entry for the operator at all.
REASON_CODES: Mapping[ReasonCode, str] = {
    "dtype": "the delegate does not take this dtype here",
    "dynamic_shape": "the delegate needs a static size here",
    "rank": "the delegate does not take this number of dimensions",
    "attribute": "the delegate does not take this value of an argument",
    "non_constant_weight": "the delegate needs a constant where the model computes a value",
    "no_kernel": "the engine has no kernel that could run it",
    "not_in_delegate": "the delegate has no entry for this operator",
    "excluded": "the user asked for it to stay out of the delegate",
}

# How advice begins that is none where nobody can choose the size.
MAKE_STATIC = "make the dimension static"
_SIZES_OF_TEXT = (
    "its sizes are the tokens of a call and the filled part of the cache, which vary as a text is read, and "
    "cannot be made static; `edgex profile` shows what it costs"
)

# What helps wherever a delegate knows nothing better.
WORKAROUNDS: Mapping[ReasonCode, str] = {
    "dynamic_shape": f"{MAKE_STATIC}: leave --dynamic out for it",
    "non_constant_weight": "make it a parameter or a buffer that forward does not change",
    "no_kernel": "replace it by simpler operators, or choose another target",
}


@dataclass(frozen=True)
class Fallback:
    """One kind of operator that the delegate left out at one source line.

    Attributes:
        op: The operator, for example `aten.cumsum.default`.
        count: How many nodes.
        code: A key of `REASON_CODES`.
        reason: A sentence that names the offending value.
        source: `file.py:line` in the user's code, or None where the program does not carry it.
        fatal: Nothing else on this engine can run it either, so that lowering fails.
        modules: Paths of the modules that run it, for example `layers.0.attention`, in program order; `""` is the
            model.
        flops: Floating-point operations of all `count` nodes; None where none of them has a count.
        workaround: What to write instead or to do, a sentence; None is that of the code in `WORKAROUNDS`, if any.
        rewrite: Name of the rewrite that is made for it, of those that the delegate asks for; None where there is none.
    """

    op: str
    count: int
    code: ReasonCode
    reason: str
    source: str | None
    fatal: bool = False
    modules: tuple[str, ...] = ()
    flops: int | None = None
    workaround: str | None = None
    rewrite: str | None = None

    def __post_init__(self) -> None:
        if self.workaround is None:
            object.__setattr__(self, "workaround", WORKAROUNDS.get(self.code))


@dataclass(frozen=True)
class PartitionPlan:
    """How a delegate splits a program.

    An operator is a call_function node other than getitem in the graph that the delegate partitions.

    Attributes:
        delegated_ops: Operators taken.
        total_ops: Operators in all.
        delegate_calls: Regions, each one call into the delegate.
        fallbacks: What was left, in program order.
        delegated_flops: Floating-point operations of what was taken; None when none of the operators has a count.
        total_flops: The same of all.
    """

    delegated_ops: int
    total_ops: int
    delegate_calls: int
    fallbacks: tuple[Fallback, ...] = ()
    delegated_flops: int | None = None
    total_flops: int | None = None

    @property
    def fraction(self) -> float:
        """Share of the operators that was taken; 1.0 for a program without operators."""
        return self.delegated_ops / self.total_ops if self.total_ops else 1.0

    @property
    def work_fraction(self) -> float | None:
        """Share of the floating-point operations that was taken, or None when unknown."""
        if not self.total_flops or self.delegated_flops is None:
            return None
        return self.delegated_flops / self.total_flops

    @property
    def fatal(self) -> tuple[Fallback, ...]:
        """The fallbacks that nothing can run."""
        return tuple(fallback for fallback in self.fallbacks if fallback.fatal)

    def to_json(self) -> dict[str, Any]:
        """The `delegation` object of `edgex.export/2` and of the manifest."""
        return {
            "fraction": round(self.fraction, 4),
            "work_fraction": None if self.work_fraction is None else round(self.work_fraction, 4),
            "delegated_ops": self.delegated_ops,
            "total_ops": self.total_ops,
            "delegate_calls": self.delegate_calls,
            "fallbacks": [{**asdict(fallback), "modules": list(fallback.modules)} for fallback in self.fallbacks],
        }


def advise_of_text(plan: PartitionPlan) -> PartitionPlan:
    """The plan of a language model: its sizes vary with the text, and no advice says to make one static."""

    def advised(item: Fallback) -> Fallback:
        fixes = item.workaround is not None and item.workaround.startswith(MAKE_STATIC)
        return replace(item, workaround=_SIZES_OF_TEXT) if fixes else item

    return replace(plan, fallbacks=tuple(map(advised, plan.fallbacks)))


def merge_plans(plans: Sequence[PartitionPlan]) -> PartitionPlan:
    """The plan of several methods together: operators, calls and work add up, and so do equal fallbacks."""

    def total(counts: Iterable[int | None]) -> int | None:
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    return PartitionPlan(
        delegated_ops=sum(plan.delegated_ops for plan in plans),
        total_ops=sum(plan.total_ops for plan in plans),
        delegate_calls=sum(plan.delegate_calls for plan in plans),
        fallbacks=group_fallbacks([fallback for plan in plans for fallback in plan.fallbacks]),
        delegated_flops=total(plan.delegated_flops for plan in plans),
        total_flops=total(plan.total_flops for plan in plans),
    )


def group_fallbacks(single: Sequence[Fallback]) -> tuple[Fallback, ...]:
    """Merge fallbacks of one operator, line and reason; counts and work add up, in the order of first appearance."""
    merged: dict[tuple[Any, ...], list[Fallback]] = {}
    for item in single:
        merged.setdefault((item.op, item.code, item.reason, item.source, item.fatal), []).append(item)
    return tuple(_merge(items) for items in merged.values())


def _merge(items: Sequence[Fallback]) -> Fallback:
    work = [item.flops for item in items if item.flops is not None]
    return replace(
        items[0],
        count=sum(item.count for item in items),
        modules=tuple(dict.fromkeys(module for item in items for module in item.modules)),
        flops=sum(work) if work else None,
    )
