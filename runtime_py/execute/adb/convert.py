"""The app's answer in the words that all devices share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgex.runtime.engines.executorch.engine import describe_program
from edgex.runtime.engines.executorch.pte import PteSummary
from edgex.runtime.execute.adb.answer import damaged
from edgex.runtime.execute.adb.tasks import Reply
from edgex.runtime.execute.request import Arrays, DeviceInfo, FreshRun, RunResult
from edgex.runtime.support.machine.activity import MeasurementWarning


def output_names(document: Mapping[str, Any], where: str) -> list[str]:
    """Names of the files that hold the outputs.

    Raises:
        DeviceError: The answer does not list them as it must.
    """
    try:
        return [
            f"out-{at}-{number}-{place}.bin"
            for at, sequence in enumerate(document["outputs"])
            for number, step in enumerate(sequence)
            for place in range(len(step))
        ]
    except (KeyError, TypeError) as error:
        raise damaged(where, f"outputs: {type(error).__name__}: {error}") from error


def make_result(
    reply: Reply,
    cold: Sequence[Mapping[str, Any]],
    outputs: Sequence[tuple[Arrays, ...]],
    device: DeviceInfo,
    program: PteSummary,
    where: str,
) -> RunResult:
    """The result of a request, without what only the sender knows.

    Args:
        reply: The app's answer.
        cold: The answers of all fresh processes, this one's among them.
        outputs: Read from the app's files.
        device: Where.
        program: What the model needs.
        where: The device, for errors.

    Raises:
        DeviceError: The answer lacks something.
    """
    document = reply.document
    try:
        app, warm_up, trace = document["app"], document["warm_up"], document["trace"]
        return RunResult(
            executed_on=describe_program(program),
            threads=document["threads"],
            outputs=outputs,
            planned_arena_bytes=program.planned_arena_bytes,
            cold=tuple(_read_cold(one["cold"]) for one in cold),
            rounds=tuple(tuple(float(sample) for sample in samples) for samples in document["rounds"]),
            steps=int(document["steps"]),
            warmup_runs=int(warm_up["runs"]),
            warmup_seconds=float(warm_up["seconds"]),
            warmup_settled=warm_up["settled"],
            versions={"executorch-android": str(app["executorch"])},
            clock="the device's",
            no_trace_reason=trace["reason"],
            device=device,
            run_id=document["run_id"],
            model_digest=document["model_sha256"],
            conditions={
                "before": document["before"],
                "after": document["after"],
                "memory": document["memory"],
                "hardware": document["device"],
                "app": app,
                "load_mode": document["load_mode"],
                "returned_by": reply.way,
            },
            warnings=tuple(find_warnings(document)),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(where, f"{type(error).__name__}: {error}") from error


def find_warnings(document: Mapping[str, Any]) -> list[MeasurementWarning]:
    """What the device's state says against its figures."""
    found: list[MeasurementWarning] = []
    before, after = document["before"], document["after"]

    def warn(code: str, text: str) -> None:
        found.append(MeasurementWarning(code, text))

    if document["app"]["debuggable"]:
        warn("debuggable-build", "a debuggable build of the app was measured: install the release build")
    if document["device"].get("emulator"):
        warn("emulator", "an emulator was measured: its times say nothing about a phone")
    hottest = max(before.get("thermal_status") or 0, after.get("thermal_status") or 0)
    if hottest > 0:
        warn("thermal", f"the device was throttling because of heat (status {hottest} of 6)")
    if before.get("power_save"):
        warn("power-save", "battery saver was on")
    if before.get("screen_on") is False:
        warn("screen-off", "the screen was off: clock speeds may be lower")
    return found


def _read_cold(cold: Mapping[str, Any]) -> FreshRun:
    return FreshRun(
        check=float(cold["check"]),
        engine_import=float(cold["engine_import"]),
        program=float(cold["program"]),
        method=float(cold["method"]),
        first=float(cold["first"]),
        peak_rss_bytes=cold["peak_rss_bytes"],
    )
