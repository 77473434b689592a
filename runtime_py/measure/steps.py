"""Which inputs a measurement runs with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgex.errors import ArtifactError, RunError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.golden import golden_of_method
from edgex.runtime.session.signature import Signature

Inputs = Mapping[str, Any] | Sequence[Any]
# Inputs by name of each run between two resets, checked: C-contiguous arrays in the manifest's dtypes.
Steps = tuple[Mapping[str, np.ndarray], ...]


def choose_steps(artifact: Artifact, inputs: Inputs | None) -> Steps:
    """The inputs of each run between two resets: one run without state, the longest proved sequence with it.

    A sequence that was proved stays within the model's limits, for example the length of its cache; given inputs are
    repeated as often.

    Args:
        artifact: Whose golden data to take.
        inputs: Inputs of one run, by name or in order, or the only one, in their place; None takes the golden ones.

    Raises:
        ArtifactError: There are no example inputs and none were given.
        RunError: The inputs do not fit.
    """
    signature = Signature.of(artifact.manifest)
    proved = [case.own_steps for case in golden_of_method(artifact) if case.kind == "compare" and case.own_steps]
    state = bool(artifact.manifest.method.state)
    steps = max(proved, key=len, default=()) if state else tuple(proved[0][:1]) if proved else ()
    if inputs is not None:
        # One array or tensor is one input: going through it would take its rows for several.
        one = hasattr(inputs, "__array__") or hasattr(inputs, "__dlpack__")
        in_order = isinstance(inputs, Sequence) and not isinstance(inputs, str | bytes)
        if not one and not in_order and not isinstance(inputs, Mapping):
            raise RunError(
                f"inputs is of type {type(inputs).__name__}",
                fix="give the arrays of one run, by name in a dict or in order in a tuple",
            )
        given = signature.prepare_named(*inputs) if in_order else signature.prepare_named(inputs)
        return (given,) * (max(1, len(steps)) if state else 1)
    if not steps:
        raise ArtifactError("the artifact holds no example inputs", artifact.path.name, "give inputs with -i")
    return tuple(signature.prepare_named(**step.inputs) for step in steps)
