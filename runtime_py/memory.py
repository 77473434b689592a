"""How much memory this process has used at most."""

from __future__ import annotations

import re
import sys
from pathlib import Path


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
