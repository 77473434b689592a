"""`assets/edgex/NAME/manifest.json`, format `edgex.android-model/1`: all that library and app know of their model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgex.delegates.recipes.tolerances import DEFAULT_TOLERANCES
from edgex.export.android.delivery import model_source_of
from edgex.export.android.engine.app_engine import AppEngine
from edgex.export.android.golden_files import GoldenSelection
from edgex.export.android.options import AppOptions
from edgex.export.android.screens import Screens
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.specs import TensorSpec
from edgex.runtime.session.numerics import Tolerance

FORMAT = "edgex.android-model/1"
# Values from 0 to 1 in a row, after which nobody would take them for logits: half of these are below 0 in most models.
_ENOUGH = 16


def describe_app(
    artifact: Artifact,
    engine: AppEngine,
    options: AppOptions,
    *,
    screens: Screens,
    selection: GoldenSelection,
) -> dict[str, Any]:
    """The app's manifest without its `golden` and `state` entries.

    Args:
        artifact: What the app is made of.
        engine: What runs it.
        options: What was chosen.
        screens: What is known of how inputs and outputs are shown.
        selection: The golden cases that the app carries.
    """
    manifest = artifact.manifest
    quantized = (manifest.verification or {}).get("quantized_tolerance")
    native = manifest.file(engine.suffix)
    image, painted = screens.image, screens.painted
    return {
        "format": FORMAT,
        "model": {
            "name": manifest.name,
            "target": manifest.target,
            "precision": manifest.precision,
            "digest": artifact.digest,
            "source": model_source_of(options.delivery, options.model_source),
            "method": manifest.method.entry,
            "file": engine.model_file,
            "file_bytes": native.bytes,
            "sha256": native.sha256,
            "weights": _describe_weights(artifact, engine),
            "artifact_bytes": artifact.total_bytes,
            "native_bytes": manifest.model_bytes,
            "planned_arena_bytes": engine.planned_arena_bytes,
            "backends": list(engine.backends),
            "portable_operators": engine.portable_operators,
            "parameters": manifest.model.get("parameters"),
            "stateful": bool(manifest.method.state),
            "description": _text(manifest.model.get("card", {}).get("description")),
        },
        "versions": {
            "edgex": manifest.producer.get("edgex", "unknown"),
            "engine": engine.name,
            "exporter": engine.exporter,
            "library": engine.library,
            "aar": engine.version,
            "flavor": engine.flavor,
        },
        "tolerance": _find_tolerance(manifest.verification, manifest.precision).to_json(),
        # For the cases that were answered by the quantized program.
        "quantized_tolerance": None if quantized is None else Tolerance.from_json(quantized).to_json(),
        "inputs": [
            {**spec.to_json(), "image": image.to_json() if image is not None and image.input == spec.name else None}
            for spec in manifest.method.inputs
        ],
        "outputs": [
            {
                **spec.to_json(),
                "activation": _find_activation(spec, selection) if spec.name == screens.scores else None,
                "image": painted.to_json() if painted is not None and painted.input == spec.name else None,
            }
            for spec in manifest.method.outputs
        ],
        "labels": list(screens.labels),
        "detection": screens.describe_detection(manifest.method.outputs),
        "text": screens.text,
        "generation": screens.generation.entry,
        "microphone": None if screens.microphone is None else screens.microphone.to_json(),
        "provider": None if engine.provider is None else dict(engine.provider),
        "note": screens.note,
        "golden_left_out": selection.left_out,
    }


def _describe_weights(artifact: Artifact, engine: AppEngine) -> dict[str, Any] | None:
    """The second file that the model's own names; its name must stay."""
    if engine.weights is None:
        return None
    file = artifact.manifest.file(".onnx.data")
    return {"file": file.path, "sha256": file.sha256}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _find_tolerance(verification: Mapping[str, Any] | None, precision: str) -> Tolerance:
    """The one that the artifact was proved with, so that the phone is judged as the desktop was."""
    if verification and verification.get("tolerance"):
        return Tolerance.from_json(verification["tolerance"])
    return DEFAULT_TOLERANCES[precision]


def _find_activation(spec: TensorSpec, selection: GoldenSelection) -> str:
    """Whether an output's scores are probabilities already, by the golden values.

    They sum to one, or each is the probability of its own label: enough of them, for logits would leave 0 to 1 sooner.
    """
    values = [step.outputs[spec.name].astype(np.float64) for case in selection.cases for step in case.steps]
    inside = all(np.all((v >= -1e-3) & (v <= 1 + 1e-3)) for v in values)
    sums_to_one = all(np.allclose(v.sum(-1), 1.0, atol=1e-2) for v in values if v.size)
    return "probabilities" if inside and (sums_to_one or sum(v.size for v in values) >= _ENOUGH) else "logits"
