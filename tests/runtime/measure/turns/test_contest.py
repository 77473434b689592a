"""The schedule of a comparison and what its verdicts are worth, on simulated machines whose clock the tests turn."""

from __future__ import annotations

import numpy as np
import pytest

from edgex.runtime.execute.request import Pace
from edgex.runtime.measure.turns.contest import run_contest


class Machine:
    """Speed drifts, wanders with autocorrelation, jitters, and calls are now and then preempted; all from one seed.

    Sizes follow what was seen on shared virtual machines: 7 % of calls far out, the mean twice the median.
    """

    def __init__(self, seed: int, wander: float = 0.05, jitter: float = 0.03, preempted: float = 0.07):
        self.now_ns = 0
        self.log: list[tuple[str, ...]] = []
        self.random = np.random.default_rng(seed)
        size = 4000
        state, walk = 0.0, []
        for step in self.random.normal(0.0, np.sqrt(1 - 0.98**2), size).tolist():
            state = 0.98 * state + step
            walk.append(state)
        drift = np.linspace(0.0, self.random.choice([-0.3, 0.3]), size)
        noise = 1.0 + np.abs(self.random.normal(0.0, jitter, size))
        late = np.where(self.random.random(size) < preempted, self.random.uniform(1.5, 20.0, size), 1.0)
        self._factors = (np.exp(wander * np.asarray(walk) + drift) * noise * late).tolist()
        self._calls = 0

    def clock(self) -> int:
        return self.now_ns

    def work(self, seconds: float) -> float:
        took = seconds * self._factors[self._calls % len(self._factors)]
        self._calls += 1
        self.now_ns += int(took * 1e9)
        return took


class Simulated:
    """A contestant whose sessions and processes differ for good."""

    def __init__(self, machine: Machine, name: str, seconds: float, session_spread=0.005, process_spread=0.002, **pace):
        self.machine, self.name, self.seconds = machine, name, seconds
        self._spread = session_spread, process_spread
        self._pace = {"sample_seconds": seconds, "samples_per_pass": 1, "rest_seconds": 1e-3, "open_seconds": 5e-3}
        self._pace |= pace

    def start(self) -> Pace:
        self.machine.log.append(("start", self.name))
        self._process = self.machine.random.normal(0.0, self._spread[1])
        self._open()
        return Pace(**self._pace)

    def reopen(self) -> None:
        self.machine.log.append(("reopen", self.name))
        self._open()

    def _open(self) -> None:
        self._session = self.machine.random.normal(0.0, self._spread[0])
        self.machine.now_ns += int(self._pace["open_seconds"] * 1e9)

    def time_block(self, passes: int, lead_in: bool) -> tuple[float, ...]:
        self.machine.log.append(("block", self.name))
        seconds = self.seconds * np.exp(self._process + self._session)
        count = passes * self._pace["samples_per_pass"]
        if lead_in:
            self.machine.work(seconds)
        return tuple(self.machine.work(seconds) for _ in range(count))

    def stop(self) -> None:
        self.machine.log.append(("stop", self.name))


def contest(machine: Machine, seconds: dict[str, float], process_spread: float = 0.002, **options):
    entries = [Simulated(machine, name, value, process_spread=process_spread) for name, value in seconds.items()]
    return run_contest(entries, clock=machine.clock, **options)


# ---- the schedule


def test_all_start_and_reopen_together_and_the_order_is_shuffled_and_turned():
    machine = Machine(0)
    found = contest(machine, {"a": 1e-3, "b": 1e-3, "a again": 1e-3}, max_seconds=0.1)
    assert sum(entry == ("start", "b") for entry in machine.log) == found.plan.processes == found.processes == 3
    assert found.sessions == 12
    assert sum(entry == ("reopen", "b") for entry in machine.log) == 12 - 3
    blocks = [name for kind, name in machine.log if kind == "block"]
    orders = [tuple(blocks[at : at + 3]) for at in range(0, len(blocks), 3)]
    assert all(sorted(order) == ["a", "a again", "b"] for order in orders)
    assert all(second == first[::-1] for first, second in zip(orders[::2], orders[1::2], strict=False))
    assert len(set(orders)) == 6  # every order is met
    assert len(orders) == len(found.rounds[0]) == 12 * found.plan.rounds_per_session
    assert [entry for entry in machine.log if entry[0] == "stop"][-3:] == [("stop", n) for n in ("a", "b", "a again")]


def test_samples_of_a_session_stay_together():
    machine = Machine(0)
    found = contest(machine, {"a": 1e-3, "b": 1e-3}, max_seconds=0.1)
    joined = found.by_session(1)
    assert len(joined) == found.sessions
    assert [s for samples in joined for s in samples] == [s for samples in found.rounds[1] for s in samples]


def test_sizes_follow_the_contestants():
    machine = Machine(0, 0.0, 0.0, 0.0)
    slow = Simulated(machine, "slow", 0.5, sample_seconds=0.5, open_seconds=0.2)
    steps = Simulated(machine, "steps", 1e-3, samples_per_pass=4)
    plan = run_contest([slow, steps], clock=machine.clock, max_seconds=0.1).plan
    assert plan.passes == (1, 2)  # one long call; two sequences of four
    assert plan.lead_in == (False, True)
    assert plan.rounds_per_session == 1
    spinning = Simulated(machine, "spins", 1e-3, rest_seconds=0.08)
    plan = run_contest([spinning, steps], clock=machine.clock, max_seconds=0.1).plan
    assert plan.passes[0] == 25


def test_a_wide_interval_is_measured_longer_and_a_narrow_one_is_not():
    quiet = contest(Machine(1, 0.0, 0.001, 0.0), {"a": 1e-3, "b": 1e-3}, process_spread=0.0005, max_seconds=20.0)
    noisy = contest(Machine(1, 0.3, 0.5, 0.3), {"a": 1e-3, "b": 1e-3}, max_seconds=20.0)
    short = contest(Machine(1, 0.3, 0.5, 0.3), {"a": 1e-3, "b": 1e-3}, max_seconds=0.1)
    assert noisy.sessions > quiet.sessions > short.sessions == 12
    assert noisy.processes > quiet.processes == short.processes == 3


def test_the_limit_can_count_starts_and_loads():
    def run(**options):
        machine = Machine(1, 0.3, 0.5, 0.3)
        entries = [Simulated(machine, name, 1e-3, open_seconds=0.5) for name in "ab"]
        return run_contest(entries, clock=machine.clock, max_seconds=20.0, **options)

    measured, whole = run(), run(counts_starts=True)
    assert whole.sessions < measured.sessions and whole.seconds < measured.seconds
    assert 20.0 <= whole.seconds < 25.0  # the session that was running is ended


def test_a_failure_stops_everybody():
    machine = Machine(0)

    class Fails(Simulated):
        def time_block(self, passes, lead_in):
            raise RuntimeError("engine")

    with pytest.raises(RuntimeError, match="engine"):
        run_contest([Simulated(machine, "a", 1e-3), Fails(machine, "b", 1e-3)], clock=machine.clock)
    assert machine.log[-2:] == [("stop", "a"), ("stop", "b")]


# ---- what the verdicts are worth

_FACTORS = {"equal": 1.0, "5 % slower": 1.05, "5 % faster": 0.95}
_TRIALS = 100


def judge_trials(trials: int, *noise: float, process_spread: float = 0.002, **options):
    """How often each verdict was reached, each time on a machine of its own."""
    counts = {name: {"faster": 0, "slower": 0, "no difference": 0, "undecided": 0} for name in _FACTORS}
    covered = 0
    for seed in range(trials):
        seconds = {name: 1e-3 * factor for name, factor in {"a": 1.0, **_FACTORS, "a again": 1.0}.items()}
        found = contest(Machine(seed, *noise), seconds, process_spread=process_spread, **options)
        for number, name in enumerate(_FACTORS, 1):
            judgement = found.judge(number)
            counts[name][judgement.verdict] += 1
            low, high = judgement.estimate.ci95
            covered += low <= _FACTORS[name] <= high
    return counts, covered / (trials * len(_FACTORS))


@pytest.fixture(scope="module")
def verdicts():
    return judge_trials(_TRIALS)


def test_two_equal_artifacts_show_no_difference(verdicts):
    counts = verdicts[0]["equal"]
    assert counts["no difference"] >= 95, counts


@pytest.mark.parametrize(("name", "verdict"), [("5 % slower", "slower"), ("5 % faster", "faster")])
def test_a_change_of_five_percent_is_found(name, verdict, verdicts):
    assert verdicts[0][name][verdict] >= 90, verdicts[0][name]


def test_the_interval_covers(verdicts):
    assert verdicts[1] >= 0.9, f"{verdicts[1]:.0%} of the 95 % intervals hold the true ratio"


def test_processes_that_differ_for_good_are_no_difference_of_artifacts():
    counts, _ = judge_trials(40, process_spread=0.01)
    equal = counts["equal"]
    assert equal["faster"] + equal["slower"] <= 2, equal
    for name in ("5 % slower", "5 % faster"):
        assert counts[name][name.split()[-1]] >= 32, counts[name]


def test_a_machine_too_noisy_is_said_to_be_too_noisy():
    counts, _ = judge_trials(20, 0.6, 0.5, 0.4, max_seconds=0.5)
    equal = counts["equal"]
    assert equal["undecided"] >= 15, equal
    assert equal["faster"] + equal["slower"] <= 1, equal
