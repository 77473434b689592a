"""The pipeline's third stage: each target's program, rewritten as it asks and in its precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from edgex.delegates.base import CapturedProgram
from edgex.export.target_model import CapturedModel, Progress, TargetModel
from edgex.runtime.support.dependency_messages import quiet_dependencies

if TYPE_CHECKING:
    from edgex.export.rewrites.proof import ProvedRewrites
    from edgex.export.settings import ExportSettings, Job


# They make several operators of one: recipes know that one, and weights in few bits stay near the processor.
_MAKE_LAYERS = frozenset(("write_recurrences", "split_sums", "average_in_steps"))

# They square what may be large, which float16 does not hold beyond 255 of it, or have numbers that it does not hold.
_NOT_IN_FLOAT16 = frozenset(("write_layer_norms", "bound_by_masks", "spare_portable_functions", "write_vector_norms"))


@quiet_dependencies()
def rewrite_for_targets(
    captured: CapturedModel, jobs: Sequence[Job], settings: ExportSettings, progress: Progress
) -> dict[str, TargetModel]:
    """Rewrite and convert; targets that ask for the same rewrites share their program."""
    from edgex.export.rewrites.precision import convert_precision
    from edgex.export.rewrites.proof import ProvedRewrites, rewrite_and_prove

    program, eager = captured.capture.program, captured.capture.eager
    made: dict[tuple[str, ...], ProvedRewrites] = {}
    for job in jobs:
        wanted = _wanted(job, settings)
        if wanted not in made:
            proved = ProvedRewrites(program, ())
            if settings.rewrite:
                progress("rewrite", "what helps the targets")
                proved = rewrite_and_prove(program, eager, wanted)
            converted = convert_precision(proved.program, settings.precision)
            made[wanted] = replace(proved, program=converted, captured=program)
            check_signature(program, made[wanted].program)
    others = [rewrite_for_targets(other, jobs, settings, progress) for other in captured.others]
    return {
        job.delegate.name: TargetModel(
            job,
            captured.source,
            eager,
            made[_wanted(job, settings)],
            others=tuple(models[job.delegate.name] for models in others),
        )
        for job in jobs
    }


def _wanted(job: Job, settings: ExportSettings) -> tuple[str, ...]:
    from edgex.export.rewrites import wanted_rewrites

    names = wanted_rewrites(job.delegate)
    without = (_MAKE_LAYERS if settings.quantize is not None else frozenset()) | (
        _NOT_IN_FLOAT16 if settings.precision == "fp16" else frozenset()
    )
    return tuple(name for name in names if name not in without)


def check_signature(before: CapturedProgram, after: CapturedProgram) -> None:
    """A stage keeps name, dtype and shape of every input and output: the graph's, not only what is said of it.

    Raises:
        AssertionError: It did not, which is a defect of edgex.
    """
    from edgex.export.rewrites.editing.editor import signature_of

    for word, old, new in (
        ("input", before.inputs, after.inputs),
        ("output", before.outputs, after.outputs),
        ("graph's signature", signature_of(before.exported), signature_of(after.exported)),
    ):
        if old != new:
            raise AssertionError(f"a rewrite changed the {word} from {old} to {new}")
