"""ExecuTorch in an app: it runs `.pte` files, in the version that wrote them."""

from __future__ import annotations

from edgex.errors import LoweringError, UsageError
from edgex.export.android.engine.app_engine import AppEngine
from edgex.export.android.engine.versions import EXECUTORCH_FLAVORS, find_executorch_aar
from edgex.export.android.library.operators import write_operators
from edgex.export.android.options import AppOptions
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.engines.executorch.pte import PteSummary, read_pte


def find_executorch(artifact: Artifact, options: AppOptions) -> AppEngine:
    """ExecuTorch's library for an artifact.

    Raises:
        UsageError: The artifact needs a plug-in.
        LoweringError: The chosen library lacks a backend.
        TargetUnavailable: There is no library of the exporter's version.
        ArtifactError: The .pte cannot be read.
    """
    plugins = artifact.manifest.requirements.plugins
    if plugins:
        raise UsageError(
            f"{artifact.path.name} is not for Android: it needs the plug-in {', '.join(plugins)}",
            why="ExecuTorch's library for Android does not have it",
            fix="edgex export MODEL -t xnnpack",
        )
    program = read_pte(artifact.file(".pte"))
    _check_backends(artifact, program, options)
    exporter = artifact.manifest.producer.get("executorch", "unknown")
    return AppEngine(
        name="executorch",
        label="ExecuTorch",
        group="org.pytorch",
        library=EXECUTORCH_FLAVORS[options.flavor][0],
        version=find_executorch_aar(exporter, artifact.path.name),
        exporter=exporter,
        flavor=options.flavor,
        suffix=".pte",
        backends=program.backends,
        portable_operators=len(program.operators),
        planned_arena_bytes=program.planned_arena_bytes,
        selected_operators=write_operators(program, "model.pte"),
    )


def _check_backends(artifact: Artifact, program: PteSummary, options: AppOptions) -> None:
    """Every backend of the program must be in the chosen library."""
    library, present = EXECUTORCH_FLAVORS[options.flavor]
    for backend in sorted(set(program.backends) - present):
        other = [flavor for flavor, (_, backends) in EXECUTORCH_FLAVORS.items() if backend in backends]
        raise LoweringError(
            f"{library} lacks the backend {backend}, which the model needs",
            artifact.path.name,
            f"--flavor {other[0]}" if other else "edgex export MODEL -t xnnpack",
            why=f"it has {', '.join(sorted(present))}",
        )
