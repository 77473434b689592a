"""Time the artifacts on a device: each on its own first, then those that are close, in turns.

The turns are those of `edgex compare --device`: coarser than a race here, with the wider intervals that go with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from edgex.errors import EdgexError
from edgex.export.pick.candidates import Loser
from edgex.export.pick.contenders import Contender, Heat, Progress, Standing, choose_close
from edgex.export.pick.judging import Judged
from edgex.runtime.execute.base import Executor
from edgex.runtime.execute.request import RunRequest
from edgex.runtime.measure.compare.reports import judge_reports
from edgex.runtime.measure.steps import choose_steps
from edgex.runtime.measure.turns.requests import report_in_turns


def run_heat_on(executor: Executor, judged: Sequence[Judged], threads: Sequence[int], progress: Progress) -> Heat:
    """Time every artifact on a device, with every number of threads, about three seconds each.

    Engine settings are left at their defaults: the native runner takes none.

    Args:
        executor: The device.
        judged: The artifacts.
        threads: Numbers of threads to try.
        progress: Called with a stage and a detail.
    """
    timed: list[Contender] = []
    failed: list[Loser] = []
    for one in judged:
        candidate = one.made.candidate
        for count in threads:
            progress("heat", f"{candidate.label} with {count} threads on the device")
            try:
                result = executor.execute(one.made.artifact, _request(one, count))
            except EdgexError as error:
                failed.append(Loser(candidate, "failed", f"it could not be timed: {error.what}", error.fix))
                timed = [other for other in timed if other.candidate != candidate]
                break
            seconds = median(median(samples) for samples in result.rounds)
            timed.append(Contender(one, count, seconds, result.cold[0].peak_rss_bytes))
    return Heat(tuple(sorted(timed, key=lambda one: one.seconds)), tuple(failed))


def run_race_on(executor: Executor, heat: Sequence[Contender], progress: Progress) -> Standing:
    """Let those that are close in a heat run in turns on the device.

    Args:
        executor: The device.
        heat: The quickest first.
        progress: Called with a stage and a detail.
    """
    close = choose_close(heat)
    beaten = [one for one in heat if one not in close]
    if len(close) == 1:
        return Standing(tuple(close), tuple(beaten))
    reports = report_in_turns(
        executor,
        [one.judged.made.artifact for one in close],
        [_request(one.judged, one.threads) for one in close],
        [one.label for one in close],
        lambda _stage, detail: progress("final", detail),
    )
    timed = [replace(one, seconds=report.steady.median) for one, report in zip(close, reports, strict=True)]
    first = min(range(len(timed)), key=lambda at: timed[at].seconds)
    drawn, slower = [replace(timed[first], ratio=None)], list[Contender]()
    for at, one in enumerate(timed):
        if at != first:
            judgement = judge_reports(reports[first], reports[at])
            (slower if judgement.verdict == "slower" else drawn).append(replace(one, ratio=judgement.estimate))
    slower.sort(key=lambda one: one.seconds)
    return Standing(tuple(drawn), (*slower, *beaten))


def _request(one: Judged, threads: int) -> RunRequest:
    steps = choose_steps(one.made.artifact, None)
    return RunRequest((steps,), threads, {}, "size", runs=None, fresh_processes=1)
