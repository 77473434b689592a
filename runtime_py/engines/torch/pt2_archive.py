"""Load a `.pt2` from an artifact without executing anything in it.

`torch.export.load` unpickles: pickled weights and constants, script objects, and its sample inputs if they do not
load as plain tensors. An artifact may come from anywhere, so archives that need a pickle are refused, and what is
left is loaded with torch's own guard (`TORCH_FORCE_WEIGHTS_ONLY_LOAD`) on.
"""

from __future__ import annotations

import json
import os
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.errors import RunError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_LOAD_LOCK = threading.Lock()
_GUARD = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
_CONFIG_SUFFIXES = ("_weights_config.json", "_constants_config.json")
_PLAIN_PREFIXES = ("weight_", "tensor_")


def load_program(path: Path) -> ExportedProgram:
    """Load a program.

    Raises:
        RunError: The file is damaged, or needs a pickle.
    """
    import torch

    damaged = ("torch cannot load model.pt2", path.parent.name, "export the model again")
    try:
        found = _find_pickles(path)
        if found:
            raise RunError(
                "model.pt2 holds pickled objects, which could execute code",
                path.parent.name,
                "do not use this artifact",
                why=", ".join(found),
            )
        # torch keeps the deserializer and the guard in places that the whole process shares.
        with _LOAD_LOCK, _no_pickles():
            return torch.export.load(path)
    except RunError:
        raise
    except Exception as error:  # a damaged archive fails in torch in many ways; all mean the same to the user
        raise RunError(
            *damaged, why=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        ) from error


def _find_pickles(path: Path) -> list[str]:
    """Members of the archive that `torch.export.load` would unpickle."""
    found: list[str] = []
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        for name in names:
            if name.endswith(_CONFIG_SUFFIXES):
                config: dict[str, Any] = json.loads(archive.read(name))["config"]
                found += [
                    key
                    for key, entry in config.items()
                    if entry["use_pickle"] or not entry["path_name"].startswith(_PLAIN_PREFIXES)
                ]
        # The format before 2.8 keeps weights and constants as one pickle each.
        found += [n for n in names if n.endswith(".pt") and ("/weights/" in n or "/constants/" in n)]
    return found


@contextmanager
def _no_pickles() -> Iterator[None]:
    before = os.environ.get(_GUARD)
    os.environ[_GUARD] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_GUARD]
        else:
            os.environ[_GUARD] = before
