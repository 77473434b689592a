"""Keep the ONNX exporter's talk off the terminal, and on our debug log."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# Packages that log or warn while a program is translated, for people who develop them.
_TALKERS = ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")

_log = logging.getLogger("edgex.delegates.onnxruntime")


class _Forward(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _log.debug("%s: %s", record.name, record.getMessage())


@contextmanager
def quiet_exporter() -> Iterator[None]:
    """Send the exporter's log records and Python warnings to our logger at debug level while the block runs."""
    loggers = [logging.getLogger(name) for name in _TALKERS]
    before = [(logger.propagate, list(logger.handlers)) for logger in loggers]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for logger in loggers:
                logger.propagate = False
                logger.handlers = [_Forward()]
            yield
        finally:
            for logger, (propagate, handlers) in zip(loggers, before, strict=True):
                logger.propagate = propagate
                logger.handlers = handlers
            for warning in caught:
                _log.debug("%s: %s", warning.category.__name__, warning.message)
