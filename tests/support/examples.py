"""How many examples a property test draws: a third, or all with `EDGEX_ALL_EXAMPLES=1`, as `make slow` has it."""

from __future__ import annotations

import os


def examples(count: int) -> int:
    return count if os.environ.get("EDGEX_ALL_EXAMPLES") == "1" else -(-count // 3)
