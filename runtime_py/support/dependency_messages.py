"""What torch, torchao, ExecuTorch and the ONNX packages say of themselves: kept off the terminal, shown by `-v`.

They log for the people who develop them: optional libraries that are not there, their own deprecated calls. None of it
is news for someone who exports a model. It goes to the logger `edgex.dependencies` at debug level, so that `-v`, or the
logging of a program, can show it. Errors stay where they are.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from edgex.runtime.support.native_stderr import capture_native_stderr

DEPENDENCIES = ("torch", "torchao", "executorch", "onnx_ir", "onnxscript")

_log = logging.getLogger("edgex.dependencies")

# What lowering warns of beside deprecations: initial values of state, which edgex keeps, and torch's switch for oneDNN,
# which sets all its flags each time.
_EXPECTED = ("Mutation on a buffer in the model is detected", "TF32 acceleration on top of oneDNN")


class _Divert(logging.Handler):
    """Sends records below a level to our log, the others to the handlers that were there."""

    def __init__(self, below: int, others: list[logging.Handler], parent: logging.Logger | None) -> None:
        super().__init__()
        self._below, self._others, self._parent = below, others, parent

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno < self._below:
            _log.debug("%s: %s", record.name, record.getMessage())
            return
        for handler in self._others:
            if record.levelno >= handler.level:
                handler.handle(record)
        if self._parent is not None:
            self._parent.callHandlers(record)


@contextmanager
def quiet_loggers(below: int = logging.ERROR) -> Iterator[None]:
    """Send what dependencies log to our debug log while the block runs.

    Enter it after torch was imported: torch sets its loggers up then. What the user's own code logs is not touched;
    whatever the block adds to the root logger is taken off again.

    Args:
        below: Records of this level and above stay where they are.
    """
    root = logging.getLogger()
    root_handlers, root_level = list(root.handlers), root.level
    loggers = _talking_loggers()
    before = [(logger.propagate, list(logger.handlers)) for logger in loggers]
    for logger, (propagates, handlers) in zip(loggers, before, strict=True):
        logger.handlers = [_Divert(below, handlers, logger.parent if propagates else None)]
        logger.propagate = False
    try:
        yield
    finally:
        for logger, (propagates, handlers) in zip(loggers, before, strict=True):
            logger.propagate, logger.handlers = propagates, handlers
        root.setLevel(root_level)
        for handler in [handler for handler in root.handlers if handler not in root_handlers]:
            root.removeHandler(handler)


@contextmanager
def quiet_dependencies(*, everything: bool = False) -> Iterator[None]:
    """Send what dependencies log, and their warnings of deprecated calls, to our debug log while the block runs.

    Args:
        everything: The errors that they log and every Python warning too: where each error also comes as an exception.
    """
    with quiet_loggers(logging.CRITICAL + 1 if everything else logging.ERROR), warnings.catch_warnings():
        shown = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            expected = issubclass(category, (FutureWarning, DeprecationWarning)) or str(message).startswith(_EXPECTED)
            if everything or expected:
                _log.debug("%s: %s", category.__name__, message)
            else:
                shown(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        if everything:
            warnings.simplefilter("always")
        yield


@contextmanager
def quiet_import() -> Iterator[None]:
    """The same around imports, with what native libraries print while they are loaded."""
    with quiet_dependencies(), capture_native_stderr() as captured:
        yield
    if captured.tail():
        _log.debug("%s", captured.tail())


def _talking_loggers() -> list[logging.Logger]:
    """The dependencies' own loggers, and those below them that have handlers of their own, as some of torch's have."""
    tops = [logging.getLogger(name) for name in DEPENDENCIES]
    below = tuple(f"{name}." for name in DEPENDENCIES)
    others = [
        logger
        for name, logger in logging.root.manager.loggerDict.items()
        if name.startswith(below) and isinstance(logger, logging.Logger) and (logger.handlers or not logger.propagate)
    ]
    return [*tops, *others]
