"""An artifact that is wrong, and on what."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgex.delegates.base import LoweredModule
from edgex.delegates.recipes.tolerances import QUANTIZED_TOLERANCE
from edgex.export.bisect.report import CaseFigure
from edgex.runtime.artifact.golden import STRESS, Case
from edgex.runtime.session.numerics import EXACT_SQNR_DB, Tolerance

if TYPE_CHECKING:
    from edgex.export.settings import ExportSettings
    from edgex.export.target_model import TargetModel


@dataclass(frozen=True)
class Subject:
    """An artifact that is wrong, and what is known of it.

    Attributes:
        model: What it was lowered from.
        settings: Of the export.
        lowered: What the delegate made of it.
        cases: All that it was to prove, those of `model` first.
        wrong: Those that it did not, the worst first.
        broken: How it crashes, or why the engine does not load it; the example is fed then.
        artifact: The model with all of its methods, where `model` is one of several.
    """

    model: TargetModel
    settings: ExportSettings
    lowered: LoweredModule
    cases: Sequence[Case]
    wrong: Sequence[CaseFigure]
    broken: str | None = None
    artifact: TargetModel | None = None

    @property
    def whole(self) -> TargetModel:
        """The first method, which has the others."""
        return self.artifact or self.model

    @property
    def methods(self) -> tuple[TargetModel, ...]:
        """All methods of the artifact."""
        return self.whole.methods

    @property
    def method(self) -> str | None:
        """The name of the one that is looked at; None where there is one. A decoder's is that of the worst case."""
        if self.model.source.language is None:
            return self.model.source.method
        return next((figure.method for figure in self.wrong if figure.method), self.model.source.language.prefill)

    @property
    def tolerance(self) -> Tolerance:
        """What every operator's outputs are held to."""
        if self.model.quantized is not None:
            return QUANTIZED_TOLERANCE
        return self.settings.tolerance_for(
            self.model.job.delegate, self.model.computed_precision(self.settings.precision)
        )


# As a proof names one run of several; the method where it is another than the case's.
RUN = re.compile(r"(?P<case>.+), step (?P<step>\d+)(?: \((?P<method>.+)\))?", re.DOTALL)


def _method_of(found: Mapping[str, Any]) -> str | None:
    """Of an entry of `cases`: what ran; None where the artifact has one method."""
    match = RUN.fullmatch(str(found["name"]))
    return found.get("method") if match is None or match["method"] is None else match["method"]


def wrong_cases(verdict: Mapping[str, Any]) -> tuple[CaseFigure, ...]:
    """The cases of an `edgex.verify/1` object that failed, the worst first."""
    figures = [
        CaseFigure(str(found["name"]), found["sqnr_db"], found["reason"], _method_of(found))
        for found in verdict["cases"]
        if found["verdict"] == "fail"
    ]
    # What the user gave before what was made of it: an error there needs no far-off input.
    return tuple(
        sorted(
            figures,
            key=lambda one: (
                one.name.startswith(STRESS),
                -EXACT_SQNR_DB if one.error_db is None else one.error_db,
            ),
        )
    )
