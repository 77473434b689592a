"""What any engine must know of a `model.onnx`: the user's inputs and outputs come first, then the carried state."""

from __future__ import annotations

from collections.abc import Sequence

from edgex.errors import ArtifactError
from edgex.runtime.artifact.artifact import Artifact


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
    # A method that only reads what another writes hands nothing back.
    returned = [spec.output for spec in carried if spec.output is not None]
    users = len(method.inputs), len(method.outputs)
    if (
        len(inputs) != users[0] + len(carried)
        or len(outputs) != users[1] + len(returned)
        or list(inputs[users[0] :]) != [str(spec.input) for spec in carried]
        or list(outputs[users[1] :]) != returned
    ):
        raise ArtifactError(
            "model.onnx does not have the inputs and outputs that the manifest lists",
            artifact.path.name,
            "export the model again",
            why=f"it takes {', '.join(inputs)} and gives {', '.join(outputs)}",
        )
