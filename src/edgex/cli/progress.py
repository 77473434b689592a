"""Progress on stderr: a line that renews itself in a terminal, one line a stage elsewhere."""

from __future__ import annotations

import re
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from edgex.cli.board import BOARD
from edgex.runtime.support.printable import escape_control

if TYPE_CHECKING:
    from rich.status import Status
    from rich.text import Text


# The step of a stage that tells how many there are: `turn 2 of 6`.
_STEP = re.compile(r"\b(\d+) of (?:at most )?(\d+)\b")


class _Clocked:
    """A stage, with the seconds that it and the whole have taken by the time it is drawn, and those that are left."""

    def __init__(self, stage: str, detail: str, stage_started: float, started: float) -> None:
        self._stage, self._detail = stage, detail
        self._stage_started, self._started = stage_started, started
        self._reported = time.monotonic()

    def _estimate(self) -> str:
        """What is left of the stage if its steps go on as they went so far."""
        steps = _STEP.findall(self._detail)
        if not steps:
            return ""
        number, total = map(int, steps[-1])
        done = number - 1  # the step that is named has begun
        if done < 1 or total < number:
            return ""
        return f", about {max(1.0, (self._reported - self._stage_started) / done * (total - done)):.0f} s left"

    def __rich__(self) -> Text:
        from rich.text import Text

        now = time.monotonic()
        clock = f"  {now - self._stage_started:.0f} s, {now - self._started:.0f} s in all{self._estimate()}"
        return Text.assemble((self._stage, "bold"), " ", self._detail, (clock, "dim"))


class StageProgress:
    """Shows the stage that is running; use as a context manager and call with (stage, detail).

    Args:
        quiet: Show nothing.
        live: In a terminal, a line that renews itself. It needs a thread, which must not run when a process forks.
    """

    def __init__(self, *, quiet: bool = False, live: bool = True) -> None:
        self._status: Status | None = None
        self._quiet, self._live = quiet, live
        self._stage = ""
        self._started = self._stage_started = time.monotonic()

    def __enter__(self) -> StageProgress:
        if sys.stderr.isatty() and self._live and not self._quiet:
            from rich.console import Console

            self._status = Console(stderr=True).status(_Clocked("starting", "", self._started, self._started))
            self._status.start()
        return self

    def __call__(self, stage: str, detail: str) -> None:
        """Say what is going on now."""
        BOARD.note_stage(stage)
        if self._quiet:
            return
        detail = escape_control(detail)
        if self._status is not None:
            now = time.monotonic()
            if stage != self._stage:
                self._stage, self._stage_started = stage, now
            self._status.update(_Clocked(stage, detail, self._stage_started, self._started))
        elif stage != self._stage:  # in a log, one line a stage is enough
            self._stage = stage
            elapsed = time.monotonic() - self._started
            print(f"[{elapsed:6.1f} s] {stage}: {detail}", file=sys.stderr, flush=True)  # noqa: T201

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()
