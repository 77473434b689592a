"""Progress on stderr: a line that renews itself in a terminal, one line a stage elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from edgex.runtime.support.printable import escape_control

if TYPE_CHECKING:
    from rich.status import Status
    from rich.text import Text


class _Clocked:
    """A stage, with the seconds that it and the whole have taken by the time it is drawn."""

    def __init__(self, stage: str, detail: str, stage_started: float, started: float) -> None:
        self._stage, self._detail = stage, detail
        self._stage_started, self._started = stage_started, started

    def __rich__(self) -> Text:
        from rich.text import Text

        now = time.monotonic()
        clock = f"  {now - self._stage_started:.0f} s, {now - self._started:.0f} s in all"
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
