"""The whole of a pick on one screen, and `edgex.pick`, its door for Python code.

```
list -> find -> capture -> export and prove each -> judge -> heat -> semifinal -> final -> publish the winner
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.errors import DeviceError, RunError, UsageError, VerificationError, nearest_name
from edgex.export.packaging.package import Destination, resolve_destination
from edgex.export.pick.candidates import FLOAT, Candidate, Loser, check_candidates, list_candidates, take_runnable
from edgex.export.pick.result import OBJECTIVES, Objective, Pick
from edgex.export.settings import ExportSettings
from edgex.runtime.artifact.artifact import SUFFIX
from edgex.runtime.support.dependency_messages import quiet_dependencies
from edgex.runtime.support.machine.host import read_host
from edgex.runtime.support.machine.threads import default_threads
from edgex.runtime.support.publish import staged_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgex.export.pick.contenders import Contender, Dropped
    from edgex.export.pick.judging import Budget, Judged
    from edgex.export.source.source import ModelSource
    from edgex.runtime.engines.base import Setting
    from edgex.runtime.execute.base import Executor

MAX_SECONDS = 40.0

Progress = Callable[[str, str], None]


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


def run_pick(
    find: Callable[[], ModelSource],
    settings: PickSettings,
    *,
    name: str,
    executor: Executor | None = None,
    progress: Progress = lambda _stage, _detail: None,
) -> Pick:
    """Pick the best artifact of a model for this machine or a device, and keep it with its threads and settings.

    Args:
        find: Gives the model; called once, after the settings were checked.
        settings: What is asked.
        name: The artifact's NAME.
        executor: The device that they are timed on; None is this machine.
        progress: Called with a stage and a detail as work goes on.

    Raises:
        UsageError: A flag is wrong, or the model cannot be found.
        DeviceError: The device cannot be reached.
        CaptureError: The model cannot be captured.
        VerificationError: Nothing meets the budget.
        RunError: Nothing could be timed.
    """
    plan = plan_pick(settings, name, executor)
    output = settings.export.output
    home = (output or Path()) / name if output is None or output.suffix != SUFFIX else output
    with staged_folder(home, kin=SUFFIX, purpose="-pick") as trials, quiet_dependencies():
        state = _Race(plan, settings, executor)
        with _kept_when_interrupted(state):
            source = find()
            state.model = source.description
            state.run(source, name, trials, progress)
        if state.interrupted:
            return state.result(None)
        winner = state.winner
        destination = resolve_destination(
            output, name, winner.candidate.target, force=settings.export.force, single=True
        )
        _publish(winner, destination, here=executor is None)
        return state.result(destination.path)


@dataclass
class _Race:
    """A pick on its way: what is known so far, so that an interrupted one can tell."""

    plan: PickPlan
    settings: PickSettings
    executor: Executor | None = None
    model: str = ""
    origin: str = ""
    judged: list[Judged] = field(default_factory=list)
    lost: list[Loser] = field(default_factory=list)
    ordered: list[Contender] = field(default_factory=list)
    drawn: list[Contender] = field(default_factory=list)
    dropped: tuple[Dropped, ...] = ()
    joules: dict[Candidate, float] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    interrupted: bool = False

    def run(self, source: ModelSource, name: str, trials: Path, progress: Progress) -> None:
        """All stages; whatever each finds is kept at once."""
        from edgex.export.capture.stage import capture_source
        from edgex.export.pick.heat import run_heat
        from edgex.export.pick.judging import find_judge, judge_all
        from edgex.export.pick.making import make_candidates
        from edgex.export.pick.racing import run_race
        from edgex.export.pick.racing_on import run_heat_on, run_race_on

        settings = self.settings
        self.lost += self.plan.refused
        progress("capture", source.description)
        captured = capture_source(source, settings.export.dynamic, progress)
        judge = find_judge(source, captured.capture, settings.data, progress)
        self.origin = judge.origin
        if not judge.real and any(candidate.kind != "fp32" for candidate in self.plan.possible):
            self.notices.append(
                "errors were measured on the example inputs alone, which says little about accuracy: define "
                "evaluate(run) in the model's file, or give held-out data with --on data.npz"
            )
        made, failures = make_candidates(lambda: source, self.plan.possible, settings.export, name, trials, progress)
        self.lost += failures
        self.judged, over = judge_all(made, judge, self._budget, progress)
        self.lost += over
        dropped = {loser.candidate for loser in over}
        within = [one for one in self.judged if one.made.candidate not in dropped]
        if not within:
            raise _nothing_left(self.lost)
        threads, device = self.plan.threads, self.executor
        if device is None:
            heat = run_heat(within, threads, progress, settings=bool(self.plan.settings))
        else:
            heat = run_heat_on(device, within, threads, progress)
        self.lost += heat.failed
        self.dropped = heat.dropped
        if not heat.timed:
            raise _nothing_timed(heat.failed)
        self._take(heat.timed)
        if heat.busy:
            self.notices.append(
                "other programs were at work: artifacts up to three times behind ran against each other too, and "
                "a quiet machine may pick another"
            )
        if settings.objective == "latency":
            standing = (
                run_race(heat, settings.max_seconds, progress)
                if device is None
                else run_race_on(device, heat.timed, progress)
            )
            self._take([*standing.drawn, *standing.beaten], drawn=standing.drawn)
        elif settings.objective == "energy":
            self.joules = _read_energy(self._best_of_each, progress)

    @property
    def _budget(self) -> Budget:
        from edgex.export.pick.judging import Budget

        return Budget(self.settings.max_drop, self.settings.min_sqnr_db)

    def _take(self, ordered: Sequence[Contender], drawn: Sequence[Contender] = ()) -> None:
        self.ordered, self.drawn = list(ordered), list(drawn)

    @property
    def _best_of_each(self) -> dict[Candidate, Contender]:
        from edgex.export.pick.contenders import first_of_each

        return first_of_each(self.ordered)

    @property
    def winner(self) -> Contender:
        """The best in the objective; of a draw in latency the smallest, with default settings, and the quickest."""
        each = self._best_of_each
        if self.settings.objective == "latency":
            rivals = self.drawn or list(each.values())[:1]
            return min(rivals, key=lambda one: (one.judged.made.bytes, len(one.options), one.seconds))
        return min(each.values(), key=lambda one: (self._cost(one), one.seconds))

    def _cost(self, one: Contender) -> float:
        if self.settings.objective == "size":
            return one.judged.made.bytes
        if self.settings.objective == "energy":
            return self.joules[one.candidate]
        return float("inf") if one.peak_rss_bytes is None else one.peak_rss_bytes

    def result(self, path: Path | None) -> Pick:
        """The rows: the picked one, those as good, those behind by latency, those that went before."""
        from edgex.export.pick.result import Row, find_pareto, lost

        each = self._best_of_each
        front = find_pareto(each)
        winner = None if self.interrupted or not each else self.winner
        drawn = {one.candidate for one in self.drawn}
        rows = []
        for candidate, one in each.items():
            shown = winner if winner is not None and candidate == winner.candidate else one
            verdict, reason = self._verdict(shown, winner, drawn)
            rows.append(
                Row(
                    candidate,
                    verdict,
                    reason,
                    None,
                    shown.judged,
                    shown,
                    candidate in front,
                    self.joules.get(candidate),
                    tuple(other for other in self.ordered if other.candidate == candidate and other is not shown),
                    tuple(drop for drop in self.dropped if drop.candidate == candidate),
                )
            )
        first = ("picked", "draw")
        rows.sort(
            key=lambda row: (*(row.verdict != verdict for verdict in first), row.timed.seconds if row.timed else 0.0)
        )
        judged = {one.made.candidate: one for one in self.judged}
        gone = {loser.candidate for loser in self.lost}
        rows += [
            Row(one.made.candidate, "not timed", "interrupted before it was timed", None, one)
            for one in self.judged
            if one.made.candidate not in each and one.made.candidate not in gone and self.interrupted
        ]
        rows += [lost(loser, judged.get(loser.candidate)) for loser in self.lost]
        device = None if self.executor is None else self.executor.describe().address
        return Pick(
            self.model, self.settings.objective, self.origin, path, tuple(rows), tuple(self.notices), self.interrupted,
            device,
        )  # fmt: skip

    def _verdict(self, one: Contender, winner: Contender | None, drawn: set[Candidate]) -> tuple[str, str]:
        if winner is None:
            return "not timed", "interrupted: its time is that of a short block"
        if one.candidate == winner.candidate:
            others = sorted(candidate.label for candidate in drawn - {one.candidate})
            draw = f"no difference to {', '.join(others)}: the smallest is kept" if others else ""
            return "picked", draw
        if self.settings.objective != "latency":
            return "behind", f"{winner.candidate.label} needs less {self.settings.objective}"
        if one.candidate in drawn:
            return "draw", "no difference that could be measured; it is not smaller"
        if one.ratio is None or one.ratio.ci95 is None:
            return "slower", f"{one.seconds / winner.seconds:.2f} times the time, by short blocks"
        low, high = one.ratio.ci95
        return "slower", f"{one.ratio.ratio:.3f} times the time of the quickest ({low:.3f} … {high:.3f})"


@contextmanager
def _kept_when_interrupted(state: _Race) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        state.interrupted = True


def _publish(winner: Contender, destination: Destination, *, here: bool) -> None:
    """Give the winner its name; where it was timed here, remember its threads and settings for this machine."""
    from edgex.export.packaging.package import publish
    from edgex.runtime.support.tuning import Tuning, write_tuning

    artifact = winner.judged.made.artifact
    destination.path.parent.mkdir(parents=True, exist_ok=True)
    publish(artifact.path, destination)
    if not here:
        return
    write_tuning(
        artifact.digest, Tuning(winner.threads, winner.options),
        {"name": destination.path.name, "median_seconds": {str(winner.threads): winner.seconds}},
    )  # fmt: skip


def _read_energy(contenders: Mapping[Candidate, Contender], progress: Progress) -> dict[Candidate, float]:
    """Joules of one run of each."""
    from edgex.runtime.engines.loading import load
    from edgex.runtime.measure.profile.collect import profile

    found = {}
    for candidate, one in contenders.items():
        progress("energy", one.label)
        with load(one.judged.made.artifact.path, threads=one.threads, check="size", tuned=False) as session:
            energy = profile(session, fresh_processes=1, trace=False, check="size").energy
        if energy is None:
            raise RunError("the energy meter could not be read", fix="--objective latency")
        found[candidate] = float(energy["joules_per_run"])
    return found


def _nothing_left(lost: Sequence[Loser]) -> VerificationError:
    return VerificationError(
        "nothing is left to pick from",
        why="; ".join(f"{loser.candidate.label}, {loser.stage}: {loser.reason}" for loser in lost),
        fix="allow more with --max-drop or --min-sqnr, or name more targets and recipes",
    )


def _nothing_timed(failures: Sequence[Loser]) -> RunError:
    return RunError(
        "no artifact could be timed",
        why="; ".join(f"{loser.candidate.label}: {loser.reason}" for loser in failures),
        fix="edgex profile ARTIFACT shows more of one",
    )


def pick(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    output: str | Path | None = None,
    targets: Sequence[str] = ("all",),
    precisions: Sequence[str] = ("fp32",),
    recipes: Sequence[str] = (FLOAT,),
    objective: Objective = "latency",
    max_drop: float | None = None,
    min_sqnr_db: float | None = None,
    evaluate: Callable[..., float] | None = None,
    data: Any = None,
    calibration: Any = None,
    threads: Sequence[int] = (),
    max_seconds: float = MAX_SECONDS,
    dynamic_shapes: Any = None,
    options: Mapping[str, Any] | None = None,
    name: str | None = None,
    force: bool = False,
    executor: Executor | None = None,
) -> Pick:
    """Export a model in every combination, prove, judge and time them, and keep the best for this machine.

    Args:
        model: An `nn.Module` or an `ExportedProgram`.
        args: Example inputs by position.
        kwargs: Example inputs by name.
        output: Folder for `NAME.TARGET.edgex`, or a path that ends in `.edgex`; None is the current folder.
        targets: Names of delegates; `all` is every one that works here.
        precisions: Of the float artifacts.
        recipes: Names of recipes; `none` stands for the float artifacts.
        objective: `latency`, `size`, `memory` or `energy`.
        max_drop: How much less than eager float32 `evaluate` may give; without it, the share of noise in the outputs.
        min_sqnr_db: Least SQNR against eager float32.
        evaluate: Takes a function that runs a model, gives a number, higher for better ones.
        data: Held-out samples in the form of the example inputs, or what `--on` takes.
        calibration: Data for recipes that need some.
        threads: Numbers of threads to try; empty chooses.
        max_seconds: How long the close ones are timed.
        dynamic_shapes: As `torch.export.export` takes it.
        options: The delegates' options; `target.key` reaches one.
        name: The artifact's NAME; None is the class name in lower case.
        force: Replace an existing artifact.
        executor: The device that the best is picked for, from `edgex.runtime.execute.address.open_executor`; None is
            this machine.

    Raises:
        EdgexError: What `run_pick` raises; nothing is left on disk then.
    """
    from edgex.export.source.source import wrap_model

    source = replace(wrap_model(model, tuple(args), dict(kwargs or {}), dynamic_shapes, name), evaluate=evaluate)
    export = ExportSettings(
        targets=(), output=None if output is None else Path(output), force=force, calibration=calibration,
        options=options or {},
    )  # fmt: skip
    settings = PickSettings(
        export, tuple(targets), tuple(precisions), tuple(recipes), objective, max_drop, min_sqnr_db, data,
        tuple(threads), max_seconds,
    )  # fmt: skip
    return run_pick(lambda: source, settings, name=source.name, executor=executor)
