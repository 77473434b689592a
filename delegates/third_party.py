"""Delegates of other packages: what they raise unexpectedly is an error of their target, and names the package."""

from __future__ import annotations

import dataclasses
import errno
import functools
import inspect
import traceback
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, cast

from edgex.delegates.base import Delegate, LoweredModule
from edgex.delegates.plan import PartitionPlan
from edgex.errors import EdgexError, LoweringError, TargetUnavailable

# No defect of a plug-in: the machine is full. Who writes the artifact has an error for it.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
_RESULTS = {"plan": PartitionPlan, "lower": LoweredModule}


def guard_delegate(delegate: Delegate, point: EntryPoint) -> Delegate:
    """The delegate, with its methods guarded where it is not edgex's own.

    What a method raises beside `EdgexError` becomes a `LoweringError` with the package, the method, and the line of
    the raise; so does a result of the wrong type, and a native file that is named and not written.

    Args:
        delegate: As its package made it.
        point: The entry point that it comes from.

    Raises:
        TargetUnavailable: It lacks something that every delegate has.
    """
    if point.module.split(".")[0] == "edgex":
        return delegate
    guard = _Guard(point)
    needed = [*Delegate.__annotations__, *(name for name in vars(Delegate) if not name.startswith("_"))]
    lacking = [name for name in needed if not hasattr(delegate, name)]
    if lacking:
        raise TargetUnavailable(
            f"target {point.name!r}: the delegate of {guard.package} lacks {', '.join(lacking)}",
            where=point.value,
            fix=f"correct {point.module}, or pip uninstall {guard.package}",
        )
    names = [name for name in dir(delegate) if not name.startswith("__")]
    # Members of the class: `isinstance` with a protocol looks for them there, and asks no `__getattr__`.
    members = {name: property(functools.partial(_read, delegate, guard, name)) for name in names}
    return cast(Delegate, type(type(delegate).__name__, (), members)())


def _read(delegate: Delegate, guard: _Guard, name: str, _guarded: object) -> Any:
    value = getattr(delegate, name)
    return guard.wrap(value, name) if inspect.isroutine(value) else value


class _Guard:
    """Knows whose the methods are that it wraps."""

    def __init__(self, point: EntryPoint) -> None:
        self._target = point.name
        self._module = point.module.split(".")[0]
        self.package = point.dist.name if point.dist else self._module

    def wrap(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        """The method with its unexpected exceptions told as errors of its target."""

        @functools.wraps(method)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                result = method(*args, **kwargs)
            except (EdgexError, MemoryError):
                raise
            except Exception as error:  # whatever else it is, it is the plug-in's
                if isinstance(error, OSError) and error.errno in _FULL:
                    raise
                why = "".join(traceback.format_exception_only(error)).strip()
                raise self._failure(f"failed in {name}", self._find_line(error), why) from error
            kind = _RESULTS.get(name)
            if kind is not None and not isinstance(result, kind):
                raise self._failure(f"gave no {kind.__name__} from {name}", None, f"it is a {type(result).__name__}")
            if isinstance(result, LoweredModule):
                return dataclasses.replace(result, write=self._checked_write(result))
            return result

        return guarded

    def _checked_write(self, lowered: LoweredModule) -> Callable[[Path], None]:
        write = self.wrap(lowered.write, "write")

        def checked(folder: Path) -> None:
            write(folder)
            missing = [name for name in lowered.files if not (folder / name).is_file()]
            if missing:
                why = f"LoweredModule.files names {', '.join(missing)}, and write did not write it"
                raise self._failure("failed in write", None, why)

        return checked

    def _failure(self, what: str, where: str | None, why: str) -> LoweringError:
        return LoweringError(
            f"target {self._target!r}: the plug-in {self.package} {what}",
            where,
            f"tell the authors of {self.package}; -v shows the traceback",
            why=why,
        )

    def _find_line(self, error: Exception) -> str:
        """The innermost line of the plug-in's own that the exception came through, else the line of the raise."""
        frames = list(traceback.walk_tb(error.__traceback__))[1:] or list(traceback.walk_tb(error.__traceback__))
        own = [at for at in frames if at[0].f_globals.get("__name__", "").split(".")[0] == self._module]
        frame, line = (own or frames)[-1]
        return f"{frame.f_code.co_filename}:{line}"
