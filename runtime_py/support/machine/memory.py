"""How much memory this process has used at most, and how much the system could still give."""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path
from typing import Any


def read_peak_rss_bytes(status: Path = Path("/proc/self/status")) -> int | None:
    """The largest resident set of this process so far.

    Args:
        status: The kernel's account of this process; `VmHWM` there belongs to this program alone, while `ru_maxrss`
            still remembers the parent that a child was forked from.

    Returns:
        Bytes, or None where the system does not say.
    """
    try:
        found = re.search(r"^VmHWM:\s*(\d+) kB$", status.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    if found:
        return int(found.group(1)) * 1024
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
    return None


def give_back_memory() -> None:
    """Give memory that was freed back to the system: glibc keeps for this process what lies between blocks in use.

    Of 511 MB of weights of 1 to 3 MB each that were freed, it kept 280.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def read_available_bytes(root: Path = Path("/"), virtual_memory: Any = None) -> int | None:
    """Memory that the system could give without swapping, or what a control group leaves of it.

    Args:
        root: Where `/proc` and `/sys` are.
        virtual_memory: What `psutil.virtual_memory()` returned; None asks it.

    Returns:
        Bytes, or None where the system does not say.
    """
    if virtual_memory is None:
        import psutil

        virtual_memory = psutil.virtual_memory()
    left = [_left_in_group(*names) for names in _groups(root)]
    found = [int(virtual_memory.available), *(count for count in left if count is not None)]
    return max(min(found), 0)


def _groups(root: Path) -> list[tuple[Path, str, str]]:
    """Every group that this process is in, the own one and those above it: folder, its limit's and its use's file."""
    mounted = root / "sys/fs/cgroup"
    names = _read(root / "proc/self/cgroup") or ""
    found = []
    for pattern, folder, limit, use in (
        (r"^0::/?(.*)$", mounted, "memory.max", "memory.current"),
        (r"^\d+:[^:]*\bmemory\b[^:]*:/?(.*)$", mounted / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        own = re.search(pattern, names, re.MULTILINE)
        path = Path(own.group(1)) if own else Path()
        found += [(folder / part, limit, use) for part in (path, *path.parents)]
    return found


def _left_in_group(folder: Path, limit_file: str, use_file: str) -> int | None:
    """What a group may still take; files that it has in memory give way. None without a limit."""
    limit, use = _read(folder / limit_file), _read(folder / use_file)
    if limit is None or use is None or not limit.isdigit():
        return None
    cached = re.findall(r"^(?:in)?active_file (\d+)$", _read(folder / "memory.stat") or "", re.MULTILINE)
    return int(limit) - int(use) + sum(map(int, cached))


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None
