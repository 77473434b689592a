"""What a comparison found, as values, in words, and as the document `edgex.compare/2` (see docs/json.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from edgex.runtime.measure.compare.numerics import Numerics
from edgex.runtime.measure.compare.operators import OperatorDelta
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.measure.statistics import Judgement
from edgex.runtime.support.machine.activity import MeasurementWarning

SCHEMA = "edgex.compare/2"

Kind = Literal["artifacts", "reports"]

_SAMPLES_HERE = "<samples {} of edgex.compare/2>"


@dataclass(frozen=True)
class Compared:
    """One of the things compared.

    Attributes:
        label: Short name, different from the others'.
        report: Its measurement: the saved one, or, for artifacts, what the interleaved blocks gave.
        delegation: What its target took, as in the manifest; None for reports.
        eager: Worst figures of the manifest's proof against eager PyTorch, `{"min_sqnr_db", "max_abs_error"}`; None
            for reports and where there was no proof.
    """

    label: str
    report: ProfileReport
    delegation: Mapping[str, Any] | None = None
    eager: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Contrast:
    """One candidate compared with the baseline.

    Attributes:
        baseline: Label of the baseline.
        candidate: Label of the candidate.
        judgement: Its latency against the baseline's.
        numerics: Its outputs against the baseline's; None for reports and for different models.
        operators: Differences by operator; None unless both were traced.
    """

    baseline: str
    candidate: str
    judgement: Judgement
    numerics: Numerics | None = None
    operators: tuple[OperatorDelta, ...] | None = None

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        judgement = self.judgement
        ratio, interval = judgement.estimate.ratio, judgement.estimate.ci95
        if interval is None:
            return f"too few rounds to decide: {self.candidate} took {ratio:.3f} × the time of {self.baseline}"
        shown = f"{interval[0]:.3f} … {interval[1]:.3f}"
        if judgement.verdict in ("faster", "slower"):
            share = abs(ratio - 1.0)
            size = f"{ratio:.1f} times as long" if ratio >= 2 else f"{_percent(share)} {_MORE[judgement.verdict]} time"
            return f"{self.candidate} is {judgement.verdict} than {self.baseline}: {size} (ratio {shown})"
        if judgement.verdict == "no difference":
            within = _percent(judgement.margin)
            return f"no difference within {within} between {self.candidate} and {self.baseline} (ratio {shown})"
        reason = f"the ratio of {self.candidate} to {self.baseline} lies anywhere in {shown}"
        if judgement.floor is not None and judgement.floor > abs(ratio - 1.0) and not interval[0] <= 1 <= interval[1]:
            reason = f"ratio {shown}, and {self.baseline} differs from itself by up to {_percent(judgement.floor)}"
        return f"too noisy to decide: {reason}"

    def to_json(self) -> dict[str, Any]:
        """One entry of `comparisons`."""
        return {
            "a": self.baseline,
            "b": self.candidate,
            **self.judgement.to_json(),
            "says": self.sentence,
            "numerics": None if self.numerics is None else self.numerics.to_json(),
            "operators": None if self.operators is None else [delta.to_json() for delta in self.operators],
        }


_MORE = {"faster": "less", "slower": "more"}


@dataclass(frozen=True)
class Method:
    """How the latencies were taken.

    Attributes:
        interleaved: In turns, side by side; reports never are.
        processes: Fresh processes of each; None for reports.
        sessions: Sessions of each, over all processes; None for reports.
        rounds_per_session: Rounds with one session; None for reports.
        max_seconds: After how long intervals are narrowed no further, starts and loads included; None for reports.
        seconds: How long the timing took, starts and loads included; None for reports.
    """

    interleaved: bool
    processes: int | None = None
    sessions: int | None = None
    rounds_per_session: int | None = None
    max_seconds: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Several artifacts, or saved reports, compared with the first.

    Attributes:
        kind: `artifacts` or `reports`.
        subjects: What was compared, the baseline first.
        contrasts: Each of the others compared with it.
        method: How.
        differences: In what the models or their inputs differ, where that was allowed.
        warnings: Reasons to trust the figures less.
    """

    kind: Kind
    subjects: tuple[Compared, ...]
    contrasts: tuple[Contrast, ...]
    method: Method
    differences: tuple[str, ...] = ()
    warnings: tuple[MeasurementWarning, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The document `edgex.compare/2`; `a`, `b`, `ratio` and so on are those of the first candidate."""
        first = self.contrasts[0].to_json()
        brief = {key: first[key] for key in ("a", "b", "ratio", "ratio_ci95", "floor", "margin", "verdict", "says")}
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            **brief,
            "comparisons": [contrast.to_json() for contrast in self.contrasts],
            "subjects": [_describe(subject) for subject in self.subjects],
            "method": asdict(self.method),
            "differences": list(self.differences),
            "warnings": [asdict(warning) for warning in self.warnings],
            "fail_on": None,
        }

    def dumps(self, **more: Any) -> str:
        """The text of a file: indented, the samples of each subject on one line.

        Args:
            **more: Entries of the document to replace.
        """
        document = {**self.to_json(), **more}
        samples = []
        for number, subject in enumerate(document["subjects"]):
            samples.append(json.dumps(subject["latency"]["raw_seconds"]))
            subject["latency"]["raw_seconds"] = _SAMPLES_HERE.format(number)
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
        for number, line in enumerate(samples):
            text = text.replace(f'"{_SAMPLES_HERE.format(number)}"', line)
        return text + "\n"


def _describe(subject: Compared) -> dict[str, Any]:
    report = subject.report.to_json()
    names = ("artifact", "host", "settings", "executed_on", "threads", "load_seconds", "fresh", "throughput", "memory")
    return {
        "label": subject.label,
        **{name: report[name] for name in names},
        "latency": report["steady"],
        "trace": report["trace"],
        "delegation": None if subject.delegation is None else dict(subject.delegation),
        "eager": None if subject.eager is None else dict(subject.eager),
        "warnings": report["warnings"],
    }


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %"
