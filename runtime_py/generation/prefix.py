"""A text's cache on disk: a long prompt is run once, and restored by any later process.

A `.safetensors` file, which holds tensors and no code:

```
metadata        {"format": "edgex.prefix/1", "artifact": SHA-256 of the native files}
ids             int64 [n], the text that the cache holds
scores          float32 [V], of the token after it
state.NAME      each tensor of the cache, whole
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgex.errors import ArtifactError, RunError
from edgex.runtime.artifact.specs import StateSpec
from edgex.runtime.support.publish import disk_errors, replacing

FORMAT = "edgex.prefix/1"
_STATE = "state."


@dataclass(frozen=True)
class Prefix:
    """What is saved.

    Attributes:
        ids: The text.
        scores: Of the token after it, float32 `[V]`.
        state: The cache's tensors by name.
    """

    ids: Sequence[int]
    scores: np.ndarray
    state: Mapping[str, np.ndarray]


def write_prefix(path: Path, prefix: Prefix, digest: str) -> None:
    """Write a file, whole or not at all; one that exists is replaced.

    Raises:
        RunError: The disk refuses.
    """
    from safetensors.numpy import save_file

    tensors = {f"{_STATE}{name}": np.ascontiguousarray(value) for name, value in prefix.state.items()}
    tensors |= {"ids": np.array(prefix.ids, np.int64), "scores": prefix.scores}
    with disk_errors(RunError, f"cannot write {path}"), replacing(path) as temporary:
        save_file(tensors, temporary, {"format": FORMAT, "artifact": digest})


def read_prefix(path: Path, digest: str, state: Sequence[StateSpec], vocabulary: int) -> Prefix:
    """Read a file.

    Args:
        path: Where it is.
        digest: Of the artifact that is to go on from it.
        state: The tensors of its cache.
        vocabulary: Of the artifact.

    Raises:
        ArtifactError: It cannot be read, is no saved prefix, or does not hold what it must.
        RunError: Another artifact wrote it.
    """
    from safetensors import SafetensorError, safe_open

    again = "save it again: generator.save(path)"
    try:
        with safe_open(path, "np") as file:
            about = file.metadata() or {}
            if about.get("format") != FORMAT:
                raise ArtifactError(f"{path.name} is no saved prefix", str(path), again)
            if about.get("artifact") != digest:
                raise RunError(
                    f"{path.name} was saved with another model",
                    str(path),
                    again,
                    why="keys and values of one model mean nothing to another; a new export is another model too",
                )
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except FileNotFoundError as error:
        raise ArtifactError(f"no such file: {path}", fix="generator.save(path) writes one") from error
    except (OSError, SafetensorError) as error:
        raise ArtifactError(f"{path.name} cannot be read", str(path), again, why=str(error)) from error
    expected: dict[str, tuple[np.dtype[np.generic], tuple[int, ...]]] = {
        "scores": (np.dtype(np.float32), (vocabulary,)),
        **{f"{_STATE}{spec.name}": (spec.numpy_dtype, spec.shape) for spec in state},
    }
    ids = tensors.pop("ids", np.zeros(0))
    found = {name: (value.dtype, value.shape) for name, value in tensors.items()}
    if found != expected or ids.dtype != np.int64 or ids.ndim != 1 or not ids.size:
        raise ArtifactError(f"{path.name} is damaged: it does not hold what this model's cache does", str(path), again)
    return Prefix(ids.tolist(), tensors["scores"], {spec.name: tensors[f"{_STATE}{spec.name}"] for spec in state})
