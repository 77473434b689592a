"""What any engine must know of a `model.onnx`: the user's inputs and outputs come first, then the carried state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgex.errors import ArtifactError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.specs import NUMPY_DTYPES

STATE_FILE = "state.safetensors"


def check_signature(artifact: Artifact, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """User inputs and outputs are bound by position, state by name at the end.

    Args:
        artifact: Whose manifest says what there should be.
        inputs: Names of the graph's inputs, in order.
        outputs: Names of its outputs.

    Raises:
        ArtifactError: The file has others.
    """
    method = artifact.manifest.method
    carried = [spec for spec in method.state if spec.input is not None]
    users = len(method.inputs), len(method.outputs)
    if (
        len(inputs) != users[0] + len(carried)
        or len(outputs) != users[1] + len(carried)
        or list(inputs[users[0] :]) != [str(spec.input) for spec in carried]
        or list(outputs[users[1] :]) != [str(spec.output) for spec in carried]
    ):
        raise ArtifactError(
            "model.onnx does not have the inputs and outputs that the manifest lists",
            artifact.path.name,
            "export the model again",
            why=f"it takes {', '.join(inputs)} and gives {', '.join(outputs)}",
        )


def read_state(artifact: Artifact) -> list[np.ndarray]:
    """Initial values of the carried state, in the order of the graph's last inputs.

    Raises:
        ArtifactError: The file does not hold what the manifest lists.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    path: Path = artifact.file(STATE_FILE)
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"{STATE_FILE} cannot be read", artifact.path.name, "export the model again", why=str(error)
        ) from error
    values = []
    for spec in artifact.manifest.method.state:
        if spec.input is None:
            continue
        value = tensors.get(spec.name)
        if value is None or value.dtype != NUMPY_DTYPES[spec.dtype] or value.shape != spec.shape:
            raise ArtifactError(
                f"{STATE_FILE} does not hold {spec.name} as {spec.dtype}{list(spec.shape)}",
                artifact.path.name,
                "export the model again",
            )
        values.append(value)
    return values
