"""The pipeline's stage of an accuracy budget: as many layers in floating point as it needs, and no more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgex.errors import VerificationError
from edgex.export.packaging.package import trial_folder
from edgex.export.packaging.stage import write_native

if TYPE_CHECKING:
    from edgex.delegates.base import CapturedProgram
    from edgex.export.quantization.budget.search import BudgetSearch
    from edgex.export.settings import ExportSettings
    from edgex.export.target_model import Progress, TargetModel


def meet_budget(model: TargetModel, settings: ExportSettings, progress: Progress) -> tuple[TargetModel, BudgetSearch]:
    """The model with as many layers in floating point as `settings.max_drop` needs; its cases are not answered again.

    Raises:
        VerificationError: Nothing meets the budget, and the best is not to be kept.
    """
    from edgex.export.quantization.budget.budget import SearchSteps
    from edgex.export.quantization.budget.metric import choose_metric

    assert settings.max_drop is not None
    held_out = () if model.quantized is None else [sample for _, sample in model.quantized.reference.held_out]
    progress("budget", f"{model.target}, eager float32")
    metric, baseline = choose_metric(model.source, model.eager, held_out)

    def assemble(program: CapturedProgram, folder: Path) -> None:
        lowered = model.job.delegate.lower(program, model.job.options)
        write_native(folder, model, lowered, settings, model.quantization)

    example = model.cases[0].steps[0].inputs
    program = model.rewritten.program
    steps = SearchSteps(model.target, program, model.quantized, model.eager, example, metric, baseline, assemble)
    with trial_folder(model.job.destination) as scratch:
        search = steps.find_fewest(settings.max_drop, scratch, progress)
    if not search.chosen.holds and not settings.keep_best:
        raise over_budget(model.target, search)
    if search.kept:
        program, quantized = steps.keeping(frozenset(search.kept))
        model = replace(model, rewritten=replace(model.rewritten, program=program), quantized=quantized)
    return model, search


def over_budget(target: str, search: BudgetSearch, saved: Path | None = None) -> VerificationError:
    """The failure of a budget that nothing met.

    Args:
        target: Whose budget.
        search: What was tried.
        saved: Where `--keep-best` saved the best; None where it was not given.
    """
    from edgex.export.quantization.budget.budget import describe_shortfall

    return VerificationError(
        f"{target}: no artifact meets --max-drop {search.max_drop:g}",
        why=describe_shortfall(search),
        fix="allow more with --max-drop, use another --quantize recipe or --observer, give more calibration data"
        + (", or save the best with --keep-best" if saved is None else f"; the best was saved all the same: {saved}"),
    )
