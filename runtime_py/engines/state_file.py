"""`state.safetensors`: the initial values of state that a Session hands back and forth beside a native file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgex.errors import ArtifactError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.specs import NUMPY_DTYPES

STATE_FILE = "state.safetensors"


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
