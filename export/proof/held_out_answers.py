"""Eager's answers to the user's own samples of `--verify-data`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgex.errors import UsageError
from edgex.export.proof.held_out import FLAG, MOST, OF_MODEL_FILE, SAMPLE
from edgex.export.proof.verification import answer_inputs, to_array
from edgex.export.quantization.calibration.samples import Samples, find_calibration
from edgex.runtime.artifact.golden import Case

if TYPE_CHECKING:
    from edgex.export.settings import ExportSettings
    from edgex.export.target_model import Progress, TargetModel


def answer_held_out(model: TargetModel, settings: ExportSettings, progress: Progress) -> list[Case]:
    """A case for each sample, with eager's answer; none where no data was given.

    Raises:
        UsageError: A sample is not what the model takes, or holds NaN or infinity; or there is none.
    """
    if settings.verify_data is None:
        return []
    if settings.verify_data == OF_MODEL_FILE and model.source.calibration_data is None:
        raise UsageError(
            f"{FLAG} {OF_MODEL_FILE}: {model.source.description} defines none", fix="define it, or give data.npz"
        )
    given = None if settings.verify_data == OF_MODEL_FILE else settings.verify_data
    data = find_calibration(given, model.source, model.eager, "verify_data")
    samples = Samples(data, model.eager, model.source.source_root, MOST, noun=SAMPLE, hold_out=False)
    program = model.rewritten.program
    cases = []
    for number, tensors in enumerate(samples, 1):
        progress("reference", f"{SAMPLE} {number}")
        inputs = {spec.name: to_array(t) for spec, t in zip(program.inputs, tensors, strict=True)}
        try:
            cases += answer_inputs(program, model.eager, inputs, f"{SAMPLE} {number}")
        except Exception as error:  # the model itself, on the user's data
            explained = samples.explain(error, tensors)
            if explained is None:
                raise
            raise explained from error
    return cases
