"""The manifest of an artifact in the making."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgex._version import __version__
from edgex.delegates.recipes.tolerances import QUANTIZED_TOLERANCE
from edgex.export.prepared import Prepared
from edgex.export.settings import ExportSettings, Job
from edgex.runtime.artifact.manifest import Manifest
from edgex.runtime.engines.registry import get_engine
from edgex.runtime.support.entry_points import installed_version

if TYPE_CHECKING:
    from edgex.delegates.base import LoweredModule
    from edgex.export.quantization.budget.search import BudgetSearch


def make_manifest(
    job: Job,
    prepared: Prepared,
    lowered: LoweredModule,
    settings: ExportSettings,
    search: BudgetSearch | None = None,
) -> Manifest:
    """The manifest before the proof: it tells the verifying process what to hold the outputs to."""
    quantized = prepared.quantized.get(job.delegate.name)
    engine = get_engine(job.delegate.engine)
    packages = {name: installed_version(name) for name in job.delegate.packages}
    producer = {**engine.versions(), **{name: found for name, found in packages.items() if found}}
    return Manifest(
        name=prepared.source.name,
        target=job.delegate.name,
        engine=job.delegate.engine,
        precision=settings.precision,
        methods=lowered.methods,
        files=(),
        producer={"edgex": __version__, **dict(sorted(producer.items()))},
        delegation=lowered.plan.to_json(),
        requirements=lowered.requirements,
        quantization=_with_accuracy(prepared.describe_quantization(job.delegate.name), search),
        verification={
            "tolerance": settings.tolerance_for(job.delegate).to_json(),
            "quantized_tolerance": None if quantized is None else QUANTIZED_TOLERANCE.to_json(),
            "allow_inconclusive": settings.allow_inconclusive,
        },
        status_reason=None,
        rewrites=prepared.rewrites(job.delegate.name),
        options=lowered.options,
        model={
            "source": prepared.source.description,
            "parameters": prepared.source.parameters,
            "card": dict(prepared.source.model_card),
        },
    )


def _with_accuracy(quantization: Mapping[str, Any] | None, search: BudgetSearch | None) -> Mapping[str, Any] | None:
    """The manifest's `quantization` with what a budget came to."""
    if quantization is None or search is None:
        return quantization
    return {**quantization, "accuracy": search.to_manifest()}
