"""What Python code or a flag hands over, checked before any work is done with it: numbers, names, paths."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Iterable, Mapping
from typing import Any

from edgex.errors import RunError, UsageError

# Engines start their threads one by one, and each waits for the others: onnxruntime takes 17 seconds to start 1,024 of
# them on two cores, and minutes for more. No machine that edgex runs on has more cores than this.
MOST_THREADS = 1024
_OF_EACH_CORE = 8
_ALWAYS_ALLOWED = 64


def check_number(name: str, value: Any, *, above: float | None = None, most: float | None = None) -> None:
    """Refuse what is no finite number, or outside of its range.

    Args:
        name: What it is called where it is given.
        value: What was given.
        above: It must be more than this; None means 0 or more.
        most: It must be this at most.

    Raises:
        UsageError: It is not as it must be.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise UsageError(f"{name} is a number, not {value!r}")
    number = float(value)
    fits = number >= 0.0 if above is None else number > above
    if not math.isfinite(number) or not fits or (most is not None and number > most):
        least = "0 or more" if above is None else f"above {above:g}"
        bounds = f", {least}," if most is None else f" between {above or 0:g} and {most:g},"
        raise UsageError(f"{name} is a finite number{bounds} not {number:g}")


def check_text(name: str, value: Any) -> None:
    """Refuse what is no text.

    Raises:
        UsageError: It is not.
    """
    if not isinstance(value, str):
        raise UsageError(f"{name} is a text, not an object of type {type(value).__name__}")


def names_of(name: str, value: Any) -> tuple[str, ...]:
    """One name or several as a tuple: going through a text would take it apart into its letters.

    Raises:
        UsageError: It is neither.
    """
    if isinstance(value, str):
        return (value,)
    found = tuple(value) if isinstance(value, Iterable) else (value,)
    if not all(isinstance(one, str) for one in found):
        raise UsageError(f"{name} is a list of names, not {value!r}")
    return found


def check_path(name: str, value: Any) -> None:
    """Refuse what is no path.

    Raises:
        UsageError: It is not.
    """
    if not isinstance(value, str | os.PathLike):
        raise UsageError(f"{name} is a path, not an object of type {type(value).__name__}")


def check_mapping(name: str, value: Any) -> None:
    """Refuse what is neither None nor a dict by name.

    Raises:
        UsageError: It is neither.
    """
    if value is not None and not (isinstance(value, Mapping) and all(isinstance(key, str) for key in value)):
        raise UsageError(f"{name} is a dict by name, not {value!r}")


def check_threads(value: Any, *, here: bool = True) -> None:
    """Refuse a number of threads that no run should have; None leaves it to the engine.

    Args:
        value: What was given.
        here: The run is on this machine, whose cores are known.

    Raises:
        UsageError: It is no whole number, or too large.
        RunError: It is below 1.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise UsageError(f"threads is a whole number, not {value!r}", fix="threads=2, or None for the default")
    count = int(value)
    if count < 1:
        raise RunError(f"threads must be at least 1, not {value}")
    cores = os.cpu_count() or 1
    most = min(MOST_THREADS, max(_ALWAYS_ALLOWED, _OF_EACH_CORE * cores)) if here else MOST_THREADS
    if count > most:
        raise UsageError(
            f"threads must be at most {most}{' on this machine' if here else ''}, not {value}",
            why=(f"it has {cores} core{'s' if cores > 1 else ''}, and " if here else "")
            + "an engine starts all threads before the first run, which takes minutes for thousands of them",
            fix="give as many as there are cores, or leave it out for the engine's default",
        )
