"""What is measured of a language model, checked against what its cache holds."""

from __future__ import annotations

from dataclasses import dataclass

from edgex.errors import UsageError
from edgex.runtime.generation.limits import Limits

# llama-bench's own.
PROMPT, NEW, RUNS = 512, 128, 5


@dataclass(frozen=True)
class LlmPlan:
    """Sizes in tokens.

    Attributes:
        prompts: Of the prompts that are run.
        new: How many tokens are generated.
        depths: How full the cache is before.
        runs: How often each is measured, after one warm-up.
    """

    prompts: tuple[int, ...]
    new: tuple[int, ...]
    depths: tuple[int, ...]
    runs: int = RUNS


def plan_measurement(
    limits: Limits,
    prompts: tuple[int, ...] | None = None,
    new: tuple[int, ...] | None = None,
    depths: tuple[int, ...] = (0,),
    runs: int | None = None,
) -> LlmPlan:
    """What is asked for; llama-bench's sizes where nothing is, or what the cache has room for.

    Args:
        limits: Of the model.
        prompts: None for the default.
        new: None for the default.
        depths: How full the cache is before.
        runs: None for the default.

    Raises:
        UsageError: The cache does not hold it.
    """
    deepest = max(depths)
    room = None if limits.context is None else limits.context - deepest
    if room is not None and room < 1:
        raise UsageError(
            f"-d {deepest}: the cache holds {limits.context} tokens, which leaves no room",
            fix=f"-d {deepest - 1 + room}, or export with a larger --context",
        )
    default = [size if room is None else min(size, room) for size in (PROMPT, NEW)]
    plan = LlmPlan(prompts or (default[0],), new or (default[1],), depths, runs or RUNS)
    for flag, sizes in (("-p", plan.prompts), ("-n", plan.new)):
        if room is not None and max(sizes) > room:
            at = f" at depth {deepest}" if deepest else ""
            raise UsageError(
                f"{flag} {max(sizes)}{at} needs a cache of {max(sizes) + deepest} tokens; it holds {limits.context}",
                fix=f"{flag} {room}, or export with a larger --context",
            )
    return plan
