"""What each operator takes: the rows of `edgex profile`, from runs of their own, so that no latency comes from them."""

import time
from statistics import median

from edgex.plugin import EngineTrace, OperatorRow


def trace_runs(session, runner, plan):
    """Make the plan's runs with every step timed."""
    runner.step_seconds, whole = [], []
    for _ in range(plan.sequences):
        session.reset()
        for arrays in plan.steps:
            started = time.perf_counter()
            session.run(*arrays)
            whole.append(time.perf_counter() - started)
    steps = runner.program["steps"]
    rows = tuple(_row(step, median(runner.step_seconds[at :: len(steps)])) for at, step in enumerate(steps))
    inside = sum(row.median_seconds for row in rows)
    return EngineTrace(
        rows, len(whole), median(whole), resolution_seconds=1e-7, coverage=min(1.0, inside / median(whole))
    )


def _row(step, seconds):
    module, source = step["module"], step["source"]
    return OperatorRow(
        name=step["out"],
        op_type=step["op"],
        delegate="numpy",  # who ran it, as in `executed_on`
        category="compute",  # or layout, cast, overhead: what is no work of the model's
        count=1,
        median_seconds=seconds,
        share=None,  # edgex fills in shares and rates
        module_path=module,
        module_paths=() if module is None else (module,),
        source=source,
        sources=() if source is None else (source,),
        operators=(step["op"],),
        map_confidence="exact",  # the step itself says where it is from
    )
