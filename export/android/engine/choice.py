"""Which engine an artifact's app has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edgex.errors import UsageError
from edgex.export.android.engine.app_engine import AppEngine
from edgex.export.android.engine.executorch import find_executorch
from edgex.export.android.engine.litert import find_litert
from edgex.export.android.engine.onnxruntime import find_onnxruntime
from edgex.export.android.options import AppOptions
from edgex.runtime.artifact.artifact import Artifact

_FINDERS: Mapping[str, Callable[[Artifact, AppOptions], AppEngine]] = {
    "executorch": find_executorch,
    "onnxruntime": find_onnxruntime,
    "litert": find_litert,
}


def find_engine(artifact: Artifact, options: AppOptions) -> AppEngine:
    """The engine that the artifact was proved with, as it is for Android.

    Raises:
        UsageError: The app has no such engine, the engine cannot run this artifact there, or an option is another's.
        LoweringError: The chosen library lacks a backend.
        TargetUnavailable: There is no library for Android of the exporter's version.
        ArtifactError: The native file cannot be read.
    """
    engine = artifact.manifest.engine
    if engine not in _FINDERS:
        raise UsageError(
            f"{artifact.path.name} is not for Android: {engine} runs it",
            why="an app runs ExecuTorch programs (.pte), ONNX models or LiteRT models (.tflite)",
            fix="edgex export MODEL -t xnnpack, -t onnx-cpu or -t litert",
        )
    return _FINDERS[engine](artifact, options)
