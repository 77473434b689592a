"""Which line of forward fixed a dynamic size: torch.export's errors do not say, its shape environment knows.

Adapter of one private method of torch, `ShapeEnv._log_guard`, called for every assumption about a size.
"""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from torch.fx.experimental.symbolic_shapes import ShapeEnv

from edgex.export.source.user_code.user_line import UserLine, line_of_frames


def find_guard_line(export_again: Callable[[], Any], wanted: str, source_root: Path) -> UserLine | None:
    """Repeat an export that fails, and watch what it assumes about sizes.

    Args:
        export_again: Non-strict, so that forward's own frames are on the stack.
        wanted: A pattern for the assumption's text, for example `Eq(s77, 4)`; the first that fits counts, else the
            first that has a line.
        source_root: Folder of the user's file.
    """
    seen: list[tuple[str, UserLine]] = []
    original = ShapeEnv._log_guard

    def record(self: ShapeEnv, prefix: str, guard: Any, forcing_spec: bool) -> None:
        frames = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_stack()]
        line = line_of_frames(frames, source_root)
        if line is not None:
            seen.append((str(guard), line))
        original(self, prefix, guard, forcing_spec)

    with mock.patch.object(ShapeEnv, "_log_guard", record), contextlib.suppress(Exception):
        export_again()  # and fail as before, with the failure that is being explained
    fitting = [line for guard, line in seen if re.search(wanted, guard)]
    return next(iter([*fitting, *(line for _, line in seen)]), None)
