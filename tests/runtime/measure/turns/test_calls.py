"""The rules of sampling, on simulated machines whose clock the tests turn."""

from __future__ import annotations

import gc
import hashlib
import threading
import time

import numpy as np
import pytest

from edgex.runtime.execute.sampling import WarmUp, Workload, plan_rounds, rest, sample_rounds, warm_up
from edgex.runtime.measure.turns.calls import compare_interleaved


class Machine:
    """A clock that moves only when simulated work is done."""

    def __init__(self):
        self.now_ns = 0
        self.log: list[str] = []

    def clock(self) -> int:
        return self.now_ns

    def work(self, name: str, seconds):
        """A call that takes `seconds`, a number or a function of how often it was called."""
        count = 0

        def call():
            nonlocal count
            took = seconds(count) if callable(seconds) else seconds
            count += 1
            self.now_ns += round(took * 1e9)
            self.log.append(name)

        return call


class NoisyMachine(Machine):
    """Speed drifts, wanders with autocorrelation, jitters and is now and then preempted; all from one seed.

    Sizes follow what was seen on shared virtual machines: 7 % of calls far out, the mean twice the median.
    """

    def __init__(self, seed: int):
        super().__init__()
        size = 16_000
        generator = np.random.default_rng(seed)
        wander, state = [], 0.0
        for step in generator.normal(0.0, np.sqrt(1 - 0.98**2), size).tolist():
            state = 0.98 * state + step
            wander.append(state)
        drift = np.linspace(0.0, generator.choice([-0.3, 0.3]), size)
        jitter = 1.0 + np.abs(generator.normal(0.0, 0.03, size))
        preempted = np.where(generator.random(size) < 0.07, generator.uniform(1.5, 20.0, size), 1.0)
        self._factors = (np.exp(0.05 * np.asarray(wander) + drift) * jitter * preempted * 1e6).tolist()
        self._at = 0

    def noisy(self, milliseconds: float):
        def call():
            self.now_ns += int(milliseconds * self._factors[self._at])
            self._at += 1

        return call


def warmed(call_seconds: float) -> WarmUp:
    """As after warming up something that takes this long."""
    return WarmUp(calls=6, seconds=6 * call_seconds, settled=True, call_seconds=call_seconds, mean_seconds=call_seconds)


# ---- warm-up


def test_warm_up_waits_until_two_windows_agree():
    machine = Machine()
    warm = warm_up(Workload((machine.work("a", 0.1),)), clock=machine.clock)
    assert (warm.settled, warm.calls) == (True, 6)  # two windows of three calls
    falling = machine.work("b", lambda count: 0.1 * 0.8 ** (count // 3) if count < 12 else 0.04)
    warm = warm_up(Workload((falling,)), clock=machine.clock)
    assert warm.settled is True
    assert warm.calls == 18
    assert warm.call_seconds == pytest.approx(0.04)


def test_warm_up_gives_up_and_says_so():
    machine = Machine()
    warm = warm_up(Workload((machine.work("a", lambda count: 0.1 * 1.1**count),)), max_seconds=2.0, clock=machine.clock)
    assert warm.settled is False
    assert 2.0 <= warm.seconds < 5.0


def test_warm_up_of_a_given_number_of_calls():
    machine = Machine()
    warm = warm_up(Workload((machine.work("a", 0.01),)), calls=7, clock=machine.clock)
    assert (warm.calls, warm.settled, len(machine.log)) == (7, None, 7)
    assert warm.seconds == pytest.approx(0.07)


def test_warm_up_of_a_sequence_starts_each_pass_from_reset():
    machine = Machine()
    calls = tuple(machine.work(str(step), 0.02) for step in range(4))
    warm_up(Workload(calls, machine.work("reset", 0.5)), calls=6, clock=machine.clock)
    assert machine.log == ["reset", "0", "1", "2", "3", "reset", "0", "1"]


# ---- how many samples


@pytest.mark.parametrize(
    ("call_seconds", "samples", "rounds", "calls_per_sample"),
    [
        (1e-3, 3000, 30, 1),
        (20e-6, 10_000, 30, 1),
        (5e-6, 10_000, 30, 4),
        (19e-6, 10_000, 30, 2),
        (0.1, 30, 30, 1),
        (10.0, 10, 10, 1),
    ],
)
def test_sizes_follow_the_length_of_a_call(call_seconds, samples, rounds, calls_per_sample):
    plan = plan_rounds(Workload((lambda: None,)), warmed(call_seconds))
    assert (plan.samples, plan.rounds, plan.calls_per_sample) == (samples, rounds, calls_per_sample)
    assert (plan.rounds - 1) * plan.samples_per_round < plan.samples <= plan.rounds * plan.samples_per_round


@pytest.mark.parametrize("runs", [1, 2, 29, 30, 31, 100, 1000])
def test_a_given_number_of_runs_is_kept(runs):
    machine = Machine()
    workload = Workload((machine.work("a", 1e-3),))
    plan = plan_rounds(workload, warmed(1e-3), runs)
    rounds = sample_rounds(workload, plan, clock=machine.clock)
    assert sum(len(samples) for samples in rounds) == plan.samples == runs == len(machine.log)
    assert all(rounds)


@pytest.mark.parametrize(("runs", "rounds"), [(3_000_000, 3000), (30_000, 30), (45_000, 45)])
def test_rounds_are_short_however_many_runs_are_asked_for(runs, rounds):
    """What was measured is kept by rounds where the user interrupts: thirty of them would have taken 100 s each."""
    plan = plan_rounds(Workload((lambda: None,)), warmed(1e-3), runs)
    assert (plan.samples, plan.rounds, plan.samples_per_round) == (runs, rounds, 1000)


# ---- rounds


def test_samples_are_seconds_per_call():
    machine = Machine()
    workload = Workload((machine.work("a", 5e-6),))
    plan = plan_rounds(workload, warmed(5e-6), runs=12)
    rounds = sample_rounds(workload, plan, clock=machine.clock)
    assert plan.calls_per_sample == 4
    assert len(machine.log) == 48
    assert [sample for samples in rounds for sample in samples] == pytest.approx([5e-6] * 12)


def test_state_is_reset_before_each_round_and_reset_is_not_timed():
    machine = Machine()
    calls = tuple(machine.work(str(step), 1e-3 * (step + 1)) for step in range(3))
    workload = Workload(calls, machine.work("reset", 10.0))
    rounds = sample_rounds(workload, plan_rounds(workload, warmed(2e-3), runs=5), clock=machine.clock)
    assert machine.log == ["reset", "0", "1", "2"] * 2
    assert [list(samples) for samples in rounds] == [pytest.approx([1e-3, 2e-3, 3e-3])] * 2


def test_quick_calls_of_a_sequence_share_samples_but_never_across_a_reset():
    machine = Machine()
    calls = tuple(machine.work(str(step), 5e-6) for step in range(6))
    workload = Workload(calls, machine.work("reset", 10.0))
    plan = plan_rounds(workload, warmed(5e-6), runs=4)
    assert (plan.calls_per_sample, plan.samples_per_round, plan.rounds) == (4, 2, 2)
    rounds = sample_rounds(workload, plan, clock=machine.clock)
    assert [len(samples) for samples in rounds] == [2, 2]
    assert machine.log == ["reset", "0", "1", "2", "3", "4", "5"] * 2
    assert rounds[0] == pytest.approx((5e-6, 5e-6))


def test_rounds_of_short_sequences_hold_several():
    """A round is a stretch of time: rounds of single sequences would make the interval of the median too narrow."""
    machine = Machine()
    workload = Workload((machine.work("0", 1e-3), machine.work("1", 1e-3)), machine.work("reset", 1.0))
    plan = plan_rounds(workload, warmed(1e-3), runs=500)
    assert (plan.samples, plan.rounds, plan.samples_per_round) == (500, 28, 18)
    rounds = sample_rounds(workload, plan, clock=machine.clock)
    assert machine.log == ["reset", "0", "1"] * 250
    assert [len(samples) for samples in rounds] == [18] * 27 + [14]


def test_calls_that_are_often_interrupted_are_planned_by_their_mean():
    warm = WarmUp(calls=6, seconds=1.0, settled=True, call_seconds=1e-3, mean_seconds=10e-3)
    assert plan_rounds(Workload((lambda: None,)), warm).samples == 300


def test_garbage_collection_is_off_while_measuring_and_on_again_after_a_failure():
    seen = []

    def fails():
        seen.append(gc.isenabled())
        raise RuntimeError("engine")

    workload = Workload((fails,))
    with pytest.raises(RuntimeError, match="engine"):
        sample_rounds(workload, plan_rounds(workload, warmed(1.0), runs=1))
    assert seen == [False]
    assert gc.isenabled()


def test_progress_is_told_outside_of_what_is_timed():
    machine = Machine()
    workload = Workload((machine.work("a", 1e-3),))
    rounds = sample_rounds(
        workload,
        plan_rounds(workload, warmed(1e-3), runs=3),
        after_round=lambda done: machine.work(f"told {done}", 9.0)(),
        clock=machine.clock,
    )
    assert machine.log == ["a", "told 1", "a", "told 2", "a", "told 3"]
    assert max(max(samples) for samples in rounds) == pytest.approx(1e-3)


# ---- comparing


def test_candidates_are_interleaved_in_alternating_order_with_the_baseline_twice():
    machine = Machine()
    result = compare_interleaved(
        [machine.work("a", 1e-3), machine.work("b", 2e-3)],
        ["a", "b"],
        rounds=6,
        samples_per_round=1,
        clock=machine.clock,
    )
    warm = sum(w.calls for w in result.warm_ups) + result.warm_ups[0].calls  # the baseline twice
    blocks = "".join(machine.log[warm::2])  # each block: one call that is not counted, one that is
    orders = [blocks[at : at + 3] for at in range(0, 18, 3)]
    assert all(sorted(order) == ["a", "a", "b"] for order in orders)
    assert [order[::-1] for order in orders[::2]] == orders[1::2]
    assert machine.log[warm::2] == machine.log[warm + 1 :: 2]
    assert [len(samples) for samples in result.rounds] == [6, 6]
    assert result.summaries[1].median == pytest.approx(2e-3)
    assert result.judgements[0].estimate.ratio == pytest.approx(2.0)
    assert result.judgements[0].verdict == "slower"


def test_comparison_of_sequences_resets_each_block():
    machine = Machine()
    workload = Workload((machine.work("0", 1e-3), machine.work("1", 1e-3)), machine.work("reset", 1.0))
    result = compare_interleaved([workload], ["a"], rounds=2, clock=machine.clock)
    assert [len(samples) for samples in result.rounds[0]] == [6, 6]  # three sequences: at least 5 ms
    assert machine.log[-24:] == ["reset", "0", "1"] * 8
    assert max(max(samples) for samples in result.rounds[0]) == pytest.approx(1e-3)
    assert result.judgements == ()


def test_the_floor_can_come_from_a_baseline_that_was_loaded_again():
    machine = Machine()
    result = compare_interleaved(
        [machine.work("a", 1.0e-3), machine.work("b", 0.95e-3)],
        ["a", "b"],
        baseline_again=machine.work("a again", 0.9e-3),  # another session of the same artifact, a tenth faster
        rounds=12,
        clock=machine.clock,
    )
    (judgement,) = result.judgements
    assert judgement.estimate.ratio == pytest.approx(0.95)
    assert judgement.floor == pytest.approx(0.1)
    assert judgement.verdict == "undecided"
    assert result.names == ("a", "b") and len(result.summaries) == len(result.rounds) == 2


def test_threads_come_to_rest_after_each_block_and_the_plan_knows():
    machine = Machine()
    result = compare_interleaved(
        [machine.work("a", 1e-3), machine.work("b", 1e-3)],
        ["a", "b"],
        max_seconds=4.0,
        clock=machine.clock,
        rest=machine.work("rest", 0.08),
    )
    blocks = "".join("|" if call == "rest" else call for call in machine.log).split("|")
    assert all(set(block) <= {"a"} or set(block) == {"b"} for block in blocks), "no two follow each other without it"
    # Three of them rest for 0.24 s a round: few rounds, of more samples than the 5 ms of a machine that needs no rest.
    assert len(result.rounds[0]) == 12 and len(result.rounds[0][0]) == 25
    assert result.summaries[1].median == pytest.approx(1e-3)


def test_rest_waits_for_threads_that_still_work():
    """As idle threads of an engine do that wait busily: what the kernel has not counted yet is no rest."""
    done, block = threading.Event(), bytes(1 << 22)

    def work():
        until = time.perf_counter() + 0.15
        while time.perf_counter() < until:
            hashlib.sha256(block)  # without the interpreter's lock
        done.set()

    waited = []
    for _ in range(5):
        done.clear()
        thread = threading.Thread(target=work)
        thread.start()
        rest()
        waited.append(done.is_set())
        thread.join()
    # A machine with too much to do may not run the thread at all for as long as rest looks.
    assert any(waited)


def test_names_and_candidates_must_match():
    with pytest.raises(ValueError, match="1 candidates, 2 names"):
        compare_interleaved([lambda: None], ["a", "b"])


_FACTORS = {"equal": 1.0, "5 % slower": 1.05, "5 % faster": 0.95}


@pytest.fixture(scope="module")
def verdicts():
    """How often each verdict was reached in 100 comparisons with a baseline, each on a noisy machine of its own."""
    counts = {name: {"faster": 0, "slower": 0, "no difference": 0, "undecided": 0} for name in _FACTORS}
    for seed in range(100):
        machine = NoisyMachine(seed)
        result = compare_interleaved(
            [machine.noisy(1.0), *(machine.noisy(factor) for factor in _FACTORS.values())],
            ["baseline", *_FACTORS],
            rounds=40,
            samples_per_round=15,
            clock=machine.clock,
        )
        for name, judgement in zip(_FACTORS, result.judgements, strict=True):
            counts[name][judgement.verdict] += 1
    return counts


def test_two_equal_candidates_are_not_told_apart_on_a_noisy_machine(verdicts):
    counts = verdicts["equal"]
    assert counts["faster"] + counts["slower"] <= 5, counts
    assert counts["no difference"] >= 50, f"too timid to be useful: {counts}"


@pytest.mark.parametrize(("name", "verdict"), [("5 % slower", "slower"), ("5 % faster", "faster")])
def test_a_change_of_five_percent_is_found_on_a_noisy_machine(name, verdict, verdicts):
    assert verdicts[name][verdict] >= 90, verdicts[name]
