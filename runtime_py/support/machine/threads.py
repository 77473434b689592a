"""How many threads a run takes when nobody says: one rule for every engine."""

from __future__ import annotations

import math
from pathlib import Path

from edgex.runtime.support.machine.host import read_cores


def default_threads(root: Path = Path("/")) -> int:
    """The cores that this process may use, the physical cores, or the control group's quota: the least of them.

    Hyper-threads are not counted: two of one core share the units that matrix products need. A quota of 1.5 cores is
    2 threads: with one, half a core of it would never be used.

    Args:
        root: Where `/proc` and `/sys` are.
    """
    cores = read_cores(root)
    known = (cores.usable, cores.physical, None if cores.quota is None else math.ceil(cores.quota))
    return max(1, min((count for count in known if count is not None), default=1))
