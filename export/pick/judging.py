"""How far each artifact is from eager float32: the user's `evaluate(run)`, held-out data, or the example alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from edgex.errors import EdgexError, UsageError
from edgex.export.pick.candidates import Loser, failed
from edgex.export.pick.making import Made
from edgex.export.quantization.budget.metric import Evaluation, Metric, NoiseShare, as_run
from edgex.runtime.engines.loading import load
from edgex.runtime.report.figures import count
from edgex.runtime.session.numerics import EXACT_SQNR_DB

if TYPE_CHECKING:
    from edgex.export.capture.program import Capture
    from edgex.export.source.source import ModelSource
    from edgex.export.target_model import Progress

# More samples of one's own than this are cut: judging is not the slow step.
_MOST_SAMPLES = 64


@dataclass(frozen=True)
class Budget:
    """What an artifact may lose; None each is no limit beyond the proof's.

    Attributes:
        max_drop: How much less than eager float32 `evaluate` may give; without it, the share of noise in the outputs.
        min_sqnr_db: Least SQNR against eager float32 over the judge's inputs.
    """

    max_drop: float | None = None
    min_sqnr_db: float | None = None


@dataclass(frozen=True)
class Judge:
    """What artifacts are judged by.

    Attributes:
        noise: Compares outputs with eager float32's.
        evaluation: The user's metric, or None.
        eager_figure: What eager float32 reaches in it.
        origin: In words, for example `evaluate(run)`, `12 samples of real.npz` or `the example inputs`.
        real: Whether the user chose it; the example alone says little about accuracy.
    """

    noise: NoiseShare
    evaluation: Metric | None
    eager_figure: float
    origin: str
    real: bool


@dataclass(frozen=True)
class Judged:
    """A made artifact with its error.

    Attributes:
        made: The artifact.
        error_db: Worst SQNR over the judge's inputs.
        figure: What `evaluate` gave; None without one.
        drop: How much it lost: of `evaluate`'s figure, or the share of noise.
    """

    made: Made
    error_db: float
    figure: float | None
    drop: float


def find_judge(source: ModelSource, capture: Capture, data: Any, progress: Progress) -> Judge:
    """The judge of a model: data that the user gave, else the file's `evaluate`, else the example.

    Args:
        source: The model.
        capture: Its capture, which holds eager.
        data: `--on`: what `--calibration` takes, but nothing random; None is not given.
        progress: Called with a stage and a detail.

    Raises:
        UsageError: The data do not fit, `evaluate` raised, or there is no float output to compare.
    """
    from edgex.export.quantization.calibration.samples import Samples, find_calibration

    eager = capture.eager
    progress("judge", "eager float32")
    taken: Sequence[Sequence[Any]] = [eager.example]
    origin = "the example inputs"
    if data is not None:
        found = find_calibration(data, source, eager)
        samples = Samples(found, eager, source.source_root, _MOST_SAMPLES)
        taken = [*samples, *(sample for _, sample in samples.held_out)]
        origin = f"{count(len(taken), 'sample')} of {found.origin}"
    inputs, references = [], []
    for tensors in taken:
        eager.reset()
        references.append([tensor.numpy() for tensor in eager.run(tensors)])
        inputs.append({spec.name: t.detach().numpy() for spec, t in zip(eager.inputs, tensors, strict=True)})
    eager.reset()
    if not any(reference.dtype.kind == "f" for outputs in references for reference in outputs):
        raise UsageError(
            "the model has no float output whose error could be measured",
            fix="define `evaluate(run)` in the model's file",
        )
    noise = NoiseShare(inputs, references)
    if data is not None or source.evaluate is None:
        return Judge(noise, None, 1.0, origin, data is not None)
    evaluation = Evaluation(source.evaluate, source.source_root)
    figure = evaluation.measure(as_run(eager))
    eager.reset()
    return Judge(noise, evaluation, figure, "evaluate(run)", True)


def judge_all(
    made: Sequence[Made], judge: Judge, budget: Budget, progress: Progress
) -> tuple[list[Judged], list[Loser]]:
    """Run every artifact on the judge's inputs.

    Returns:
        All that ran, with their errors; and those that lose more than the budget, or failed.
    """
    ran, out = [], []
    for number, one in enumerate(made, 1):
        progress("judge", f"{one.candidate.label} on {judge.origin}, {number} of {len(made)}")
        try:
            judged = _judge(one, judge)
        except EdgexError as error:
            out.append(failed(one.candidate, error))
            continue
        ran.append(judged)
        reason = _over(judged, judge, budget)
        if reason is not None:
            out.append(Loser(one.candidate, "over budget", reason, "allow more, or calibrate on more data"))
    return ran, out


def _judge(made: Made, judge: Judge) -> Judged:
    with load(made.artifact.path, check="size", tuned=False) as session:

        def run(*args: Any, **kwargs: Any) -> Sequence[np.ndarray]:
            session.reset()
            return session.run(*args, **kwargs)

        noise = 1.0 - judge.noise.measure(run)
        error_db = EXACT_SQNR_DB if noise <= 0.0 else min(EXACT_SQNR_DB, -10.0 * math.log10(noise))
        if judge.evaluation is None:
            return Judged(made, error_db, None, max(0.0, noise))
        session.reset()
        figure = judge.evaluation.measure(session.run)
        return Judged(made, error_db, figure, judge.eager_figure - figure)


def _over(judged: Judged, judge: Judge, budget: Budget) -> str | None:
    """Why an artifact is over the budget; None where it is not."""
    if budget.max_drop is not None and judged.drop > budget.max_drop:
        by = judged.drop - budget.max_drop
        what = "evaluate(run)" if judge.evaluation is not None else "the share of noise"
        return f"{what} loses {judged.drop:.4g}, {by:.3g} more than --max-drop {budget.max_drop:g} allows"
    if budget.min_sqnr_db is not None and judged.error_db < budget.min_sqnr_db:
        by = budget.min_sqnr_db - judged.error_db
        return (
            f"{judged.error_db:.1f} dB on {judge.origin}, {by:.1f} dB less than --min-sqnr {budget.min_sqnr_db:g} asks"
        )
    return None
