"""What an accuracy budget is measured by: the model file's `evaluate(run)`, else the share of noise in the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from edgex.errors import UsageError
from edgex.runtime.session.numerics import measure_sqnr_db

if TYPE_CHECKING:
    import torch

    from edgex.export.source.eager import EagerModel
    from edgex.export.source.source import ModelSource

# The model, whoever runs it: inputs by position or name, as `Session.run`; outputs as arrays.
Run = Callable[..., Sequence[np.ndarray]]
MetricName = Literal["evaluate", "sqnr"]


class Metric(Protocol):
    """Tells how good a model is; higher is better."""

    @property
    def name(self) -> MetricName:
        """`evaluate` or `sqnr`."""
        ...

    def measure(self, run: Run) -> float:
        """The figure of a model that `run` runs.

        Raises:
            UsageError: The user's function raised, or gave no finite number.
        """
        ...


@dataclass(frozen=True)
class Evaluation:
    """The user's own `evaluate(run)`.

    Attributes:
        function: Takes a `Run`, gives a number.
        source_root: Folder of the user's file, for messages.
    """

    function: Callable[[Run], Any]
    source_root: Path
    name: MetricName = "evaluate"

    def measure(self, run: Run) -> float:
        """See `Metric.measure`."""
        from edgex.export.source.user_file import run_user_code

        value = run_user_code(lambda: self.function(run), "evaluate(run)", self.source_root)
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise UsageError(
                f"evaluate(run) gave {type(value).__name__}, not a number",
                fix="return one float, higher for better models",
            ) from None
        if not math.isfinite(number):
            raise UsageError(
                f"evaluate(run) gave {number}",
                why="a budget cannot be measured by that",
                fix="check its data, and that it does not divide by a count of zero",
            )
        return number


@dataclass(frozen=True)
class NoiseShare:
    """1 - (power of the error) / (power of eager's output), the worst of all outputs: 0.99 is an SQNR of 20 dB.

    Attributes:
        samples: Inputs by name.
        references: Eager's float outputs to each, in the model's order.
    """

    samples: Sequence[dict[str, np.ndarray]]
    references: Sequence[Sequence[np.ndarray]]
    name: MetricName = "sqnr"

    def measure(self, run: Run) -> float:
        """See `Metric.measure`."""
        worst = math.inf
        for inputs, references in zip(self.samples, self.references, strict=True):
            for reference, actual in zip(references, run(**inputs), strict=True):
                if reference.dtype.kind == "f":
                    worst = min(worst, measure_sqnr_db(reference, np.asarray(actual)))
        return 1.0 - float(10.0 ** (-worst / 10.0))


def choose_metric(
    source: ModelSource, eager: EagerModel, held_out: Sequence[Sequence[torch.Tensor]]
) -> tuple[Metric, float]:
    """The metric for a model, with what eager float32 reaches in it.

    Args:
        source: The model, whose file may define `evaluate`.
        eager: The float model.
        held_out: Samples that were not calibrated on; the example is used beside them.

    Raises:
        UsageError: `evaluate` raised, or gave no finite number; or there is none, and no float output to compare.
    """
    if source.evaluate is not None:
        evaluation = Evaluation(source.evaluate, source.source_root)
        if evaluation.name not in eager.figures:  # a user's function may take minutes
            eager.figures[evaluation.name] = evaluation.measure(as_run(eager))
        return evaluation, eager.figures[evaluation.name]
    samples, references = [], []
    for tensors in (eager.example, *held_out):
        eager.reset()
        outputs = [tensor.numpy() for tensor in eager.run(tensors)]
        samples.append({spec.name: t.detach().numpy() for spec, t in zip(eager.inputs, tensors, strict=True)})
        references.append(outputs)
    if not any(reference.dtype.kind == "f" for outputs in references for reference in outputs):
        raise UsageError(
            "--max-drop: the model has no float output whose error could be measured",
            fix="define `evaluate(run)` in the model's file",
        )
    return NoiseShare(samples, references), 1.0


def as_run(eager: EagerModel) -> Run:
    """The eager model with the manners of a session: arrays or tensors in, a tuple of arrays out."""
    import torch

    def run(*args: Any, **kwargs: Any) -> tuple[np.ndarray, ...]:
        names = [spec.name for spec in eager.inputs]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        tensors = [torch.as_tensor(given[name]) for name in names]
        return tuple(tensor.numpy() for tensor in eager.run(tensors))

    return run
