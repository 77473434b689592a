"""A pick on its way: its stages, each of which leaves at once what it found, so that an interrupted one can tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from edgex.errors import RunError, VerificationError
from edgex.export.pick.candidates import Candidate, Loser
from edgex.export.pick.plan import PickPlan, PickSettings
from edgex.export.pick.result import Pick

if TYPE_CHECKING:
    from edgex.export.pick.contenders import Contender, Dropped, Progress
    from edgex.export.pick.judging import Budget, Judged
    from edgex.export.source.source import ModelSource
    from edgex.runtime.execute.base import Executor


@dataclass
class PickState:
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
