"""The user's cache folder: what can be made again, kept because making it takes time.

```
$XDG_CACHE_HOME/edgex, ~/.cache/edgex, on macOS ~/Library/Caches/edgex
  tuned/        threads a pick or sweep found          ceilings/          what this host does at best
  trials/       digests of artifacts that were loaded in a process of their own
  trusted/      digests of compiled code that may run
  onednn/       compiled backends                       device/runners/    compiled native runners
  device/executorch/, device/hashes/, device/local/     libraries of other architectures, their digests, links to them
```
"""

from __future__ import annotations

from pathlib import Path

# What to do where it cannot be written.
CACHE_FIX = "set XDG_CACHE_HOME to a writable folder"


def user_cache(*parts: str) -> Path:
    """A folder in edgex's part of the user's cache; it may not exist yet.

    Args:
        *parts: Names of folders, from the outermost.
    """
    # Takes a few milliseconds, which not every run needs.
    import platformdirs

    return Path(platformdirs.user_cache_dir("edgex", appauthor=False), *parts)
