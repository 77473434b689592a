"""The user's cache folder: what can be made again, kept because making it takes time."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache() -> Path:
    """`edgex` in the user's cache folder; it may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "edgex"
