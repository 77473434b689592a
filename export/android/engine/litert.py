"""LiteRT in an app: its interpreter runs `model.tflite` on the XNNPACK delegate."""

from __future__ import annotations

from edgex.errors import TargetUnavailable
from edgex.export.android.engine.app_engine import AppEngine, refuse_flavor
from edgex.export.android.engine.replacement import EXECUTORCH_SOURCE, replace_executorch
from edgex.export.android.engine.versions import LITERT_AAR
from edgex.export.android.options import AppOptions
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.support.versions import is_older

_SUFFIX = ".tflite"
_EDITS = replace_executorch(
    "LiteRT",
    _SUFFIX,
    pinned="As old as the converter, or newer: it reads what older ones wrote.",
    licences="LiteRT: Apache 2.0, Google and others\\nKotlin: Apache 2.0, JetBrains",
    noncompressed="tflite",
)


def find_litert(artifact: Artifact, options: AppOptions) -> AppEngine:
    """LiteRT's library for an artifact.

    Raises:
        UsageError: A flavor is asked for, which are ExecuTorch's.
        TargetUnavailable: The artifact needs a newer LiteRT.
    """
    manifest = artifact.manifest
    refuse_flavor(artifact, options, "LiteRT")
    needed = manifest.requirements.minimum_version
    if needed is not None and is_older(LITERT_AAR, needed):
        raise TargetUnavailable(
            f"{artifact.path.name} is not for the app: it needs LiteRT {needed}, and the app brings {LITERT_AAR}",
            fix=f"export the model again with ai-edge-litert {LITERT_AAR}",
        )
    return AppEngine(
        name="litert",
        label="LiteRT",
        group="com.google.ai.edge.litert",
        library="litert",
        version=LITERT_AAR,
        exporter=manifest.producer.get("ai-edge-litert", manifest.producer.get("litert-torch", "unknown")),
        flavor="cpu",
        suffix=_SUFFIX,
        backends=("XNNPACK",),
        variants=("litert",),
        left_out=(EXECUTORCH_SOURCE,),
        edits=_EDITS,
    )
