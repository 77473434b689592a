"""The folder of compiled models (.mxr), and the stamp that says for what they were compiled.

MIGraphX compiles at first load, for minutes, and keeps the result where `model_cache_dir` says. A result of another
model, GPU or version would be used without a word, so edgex writes `edgex-cache.json` beside it and compares.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from edgex.errors import RunError
from edgex.runtime.support.publish import write_text

STAMP_FILE = "edgex-cache.json"


def prepare_cache(folder: Path, stamp: Mapping[str, str]) -> None:
    """Make the folder, or check that what it holds was compiled for this.

    Args:
        folder: Where the provider keeps compiled models.
        stamp: What they depend on: artifact digest, versions, GPU.

    Raises:
        RunError: It holds models compiled for something else, or models without a stamp, or cannot be written.
    """
    path = folder / STAMP_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            _compare(folder, stamp, path.read_text(encoding="utf-8"))
        elif any(folder.iterdir()):
            raise RunError(
                f"the compiled-model cache {folder.name} holds files that edgex did not put there",
                why=f"without {STAMP_FILE} nothing says for which model and GPU they were compiled",
                fix="give an empty folder as cache_dir",
            )
        else:
            write_text(path, json.dumps(dict(stamp), indent=2) + "\n")
    except OSError as error:
        raise RunError(f"the compiled-model cache {folder.name} cannot be used", why=error.strerror) from error


def _compare(folder: Path, stamp: Mapping[str, str], text: str) -> None:
    try:
        found = json.loads(text)
    except ValueError:
        found = {}
    found = found if isinstance(found, dict) else {}
    differing = [name for name, value in stamp.items() if found.get(name) != value]
    if differing:
        lines = [
            f"{name}: it was compiled for {found.get(name, 'unknown')}, this is {stamp[name]}" for name in differing
        ]
        raise RunError(
            f"the compiled-model cache {folder.name} is stale",
            why="\n".join(lines),
            fix=f"rm -r {folder}, or give another folder as cache_dir",
        )
