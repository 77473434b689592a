"""Inputs that hold NaN or infinity, where the proof did not see an artifact treat them as eager PyTorch does.

Many kernels drop NaN: a maximum takes the other number, and a broken sensor becomes an ordinary answer. What was proved
stands in the manifest, `refuses` of its verification; such inputs are refused rather than answered otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgex.errors import RunError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.shapes import SPECIAL_INPUTS

_NAN, _INFINITY = SPECIAL_INPUTS
_FIND = {_NAN: np.isnan, _INFINITY: np.isinf}


class FiniteCheck:
    """What is refused of the inputs of one method.

    Attributes:
        watched: By position, what an input may not hold: `NaN`, `infinity`.
    """

    def __init__(self, artifact: Artifact) -> None:
        """Read what the proof found.

        Args:
            artifact: With the method that is meant.
        """
        self._artifact = artifact
        refuses = {str(entry["values"]): entry["inputs"] for entry in _entries(artifact, "refuses")}
        found = {
            at: tuple(kind for kind in _FIND if spec.name in refuses.get(kind, ()))
            for at, spec in enumerate(artifact.manifest.method.inputs)
            if spec.numpy_dtype.kind == "f"
        }
        self.watched: Mapping[int, tuple[str, ...]] = {at: kinds for at, kinds in found.items() if kinds}

    def require(self, arrays: Sequence[np.ndarray]) -> None:
        """Check prepared inputs: one pass over each that is watched for NaN, two for infinity.

        Raises:
            RunError: One holds what the artifact does not treat as eager does.
        """
        for at, kinds in self.watched.items():
            array = arrays[at]
            if not array.size:
                continue
            # A maximum is NaN where anything is, and quicker than asking each number.
            highest = array.max()
            if highest < np.inf and (kinds == (_NAN,) or array.min() > -np.inf):
                continue
            for kind in kinds:
                if _FIND[kind](array).any():
                    raise self._refusal(at, kind, array)

    def _refusal(self, at: int, kind: str, array: np.ndarray) -> RunError:
        name = self._artifact.manifest.method.inputs[at].name
        first = np.unravel_index(int(_FIND[kind](array).argmax()), array.shape)
        place = f" at [{', '.join(map(str, first))}]" if first else ""
        return RunError(
            f"input {name!r} holds {kind}{place}, which this artifact is not proved to treat as eager PyTorch does",
            self._artifact.path.name,
            "replace such values before the run, or let them pass: edgex run --allow-non-finite, "
            "edgex.load(..., allow_non_finite=True); where they mean something to the model, export it with an example "
            "that holds some: then they are proved",
            why=_why(self._artifact, kind),
        )


def _entries(artifact: Artifact, key: str) -> list[Mapping[str, Any]]:
    """What the proof found of the method that is meant; entries of artifacts with one method name none."""
    found: Sequence[Mapping[str, Any]] = (artifact.manifest.verification or {}).get(key, ())
    return [entry for entry in found if entry.get("method") in (None, artifact.manifest.method.name)]


def _why(artifact: Artifact, kind: str) -> str:
    entry = next((found for found in _entries(artifact, "nan_inf") if found["input"] == kind), None)
    if entry is None:
        return f"it was not proved with {kind} in its inputs"
    behind = f", behind {entry['op']}" if entry.get("op") else ""
    source = f" at {entry['source']}" if entry.get("source") else ""
    return f"{entry['output']} has {entry['engine']} where eager has {entry['eager']}{behind}{source}"
