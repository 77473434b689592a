"""What is asked of a pick, and what it will do: known, and refused if need be, before any slow step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgex.errors import DeviceError, UsageError, nearest_name
from edgex.export.pick.candidates import FLOAT, Candidate, Loser, check_candidates, list_candidates, take_runnable
from edgex.export.pick.result import OBJECTIVES, Objective
from edgex.export.settings import ExportSettings
from edgex.runtime.support.arguments import check_number, check_threads
from edgex.runtime.support.machine.host import read_host
from edgex.runtime.support.machine.threads import default_threads

if TYPE_CHECKING:
    from edgex.runtime.engines.base import Setting
    from edgex.runtime.execute.base import Executor

MAX_SECONDS = 40.0


@dataclass(frozen=True)
class PickSettings:
    """What is asked of a pick.

    Attributes:
        export: Common to all exports; target, precision and recipe are the candidates'.
        targets: Names of delegates, or `all`.
        precisions: Of the float artifacts.
        recipes: Names of recipes; `none` stands for the float artifacts.
        objective: What the best is best in.
        max_drop: See `edgex.export.pick.judging.Budget`.
        min_sqnr_db: See `Budget`.
        data: Held-out samples that errors are measured on, as `--calibration` takes them; None leaves it to the
            file's `evaluate`, or to the example.
        threads: Numbers of threads to try; empty is the default, one, and powers of two up to all cores.
        max_seconds: How long the close ones are timed, beside starting processes.
    """

    export: ExportSettings
    targets: tuple[str, ...] = ("all",)
    precisions: tuple[str, ...] = ("fp32",)
    recipes: tuple[str, ...] = (FLOAT,)
    objective: Objective = "latency"
    max_drop: float | None = None
    min_sqnr_db: float | None = None
    data: Any = None
    threads: tuple[int, ...] = ()
    max_seconds: float = MAX_SECONDS


@dataclass(frozen=True)
class PickPlan:
    """What a pick will do, known before any slow step.

    Attributes:
        possible: What is exported.
        refused: What is not, and why.
        threads: Numbers of threads that each is timed with.
        settings: Engine settings that are timed for those that are close, by target, for the most threads.
        heat_processes: Fresh processes of the heat, at most.
        max_seconds: How long the close ones are timed.
    """

    possible: tuple[Candidate, ...]
    refused: tuple[Loser, ...]
    threads: tuple[int, ...]
    settings: Mapping[str, tuple[Setting, ...]]
    heat_processes: int
    max_seconds: float


def plan_pick(settings: PickSettings, name: str, executor: Executor | None = None) -> PickPlan:
    """Check every flag, and list what there is to pick from.

    Args:
        settings: What is asked of the pick.
        name: The artifacts' NAME.
        executor: The device that the best is picked for; None is this machine.

    Raises:
        UsageError: A flag is wrong, or nothing is left.
        TargetUnavailable: The objective cannot be measured here.
        DeviceError: The device cannot be reached, or cannot run artifacts.
    """
    from edgex.export.quantization.calibration.samples import check_calibration
    from edgex.runtime.execute.here.meters import energy_domains
    from edgex.runtime.measure.sweep import choose_threads

    if settings.objective not in OBJECTIVES:
        raise UsageError(
            f"unknown objective {settings.objective!r}", why=nearest_name(settings.objective, OBJECTIVES),
            fix=f"--objective {'|'.join(OBJECTIVES)}",
        )  # fmt: skip
    if settings.objective == "energy" and executor is not None:
        raise UsageError("--objective energy does not go with --device", fix="--objective latency")
    if settings.objective == "energy" and not energy_domains():
        raise UsageError(
            "--objective energy: this machine has no energy meter that may be read",
            why="energy comes from RAPL, /sys/class/powercap, which most virtual machines lack and some systems keep "
            "to the administrator",
            fix="--objective latency",
        )
    if isinstance(settings.data, str) and settings.data.startswith("random:"):
        raise UsageError("--on random:N judges nothing", fix="give data.npz or file.py:function with real inputs")
    check_calibration(settings.data)
    for flag, value in (("--max-drop", settings.max_drop), ("--min-sqnr", settings.min_sqnr_db)):
        if value is not None:
            check_number(flag, value)
    check_number("--max-seconds", settings.max_seconds, above=0.0)
    for count in settings.threads:
        check_threads(count, here=executor is None)
    known: dict[str, tuple[Setting, ...]] = {}
    candidates = list_candidates(settings.targets, settings.precisions, settings.recipes)
    possible, refused = check_candidates(candidates, settings.export, name)
    if executor is None:
        threads = settings.threads or tuple(choose_threads(read_host(), default_threads()))
        heats = len(threads) + 1
        if settings.objective == "latency":
            known = _list_settings(possible, max(threads))
    else:
        _require_ready(executor)
        possible, idle = take_runnable(possible, executor)
        refused += idle
        threads = settings.threads or tuple(choose_threads(executor.host, 1))
        heats = len(threads)
    # The default once more, for its outputs, and each setting.
    more = sum(1 + len(known[one.target]) for one in possible if known.get(one.target))
    processes = heats * len(possible) + more
    return PickPlan(tuple(possible), tuple(refused), threads, known, processes, settings.max_seconds)


def _list_settings(candidates: Sequence[Candidate], threads: int) -> dict[str, tuple[Setting, ...]]:
    """Settings worth timing by target, of those whose engines name some."""
    from edgex.delegates.registry import get_delegate
    from edgex.runtime.engines.base import list_settings
    from edgex.runtime.engines.registry import get_engine

    targets = dict.fromkeys(one.target for one in candidates)
    found = {target: list_settings(get_engine(get_delegate(target).engine), threads) for target in targets}
    return {target: settings for target, settings in found.items() if settings}


def _require_ready(executor: Executor) -> None:
    """Refuse a device that cannot be used, before anything is exported for it."""
    there = executor.describe()
    if there.problems:
        raise DeviceError("the device cannot run artifacts", there.address, why="; ".join(there.problems))
