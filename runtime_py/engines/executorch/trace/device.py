"""Operators out of an ETDump that a device recorded."""

from __future__ import annotations

import tempfile
from pathlib import Path

from edgex.runtime.engines.executorch.trace.etdump import read_etdump
from edgex.runtime.engines.executorch.trace.reader import read_trace
from edgex.runtime.engines.trace.source_map import SourceMap
from edgex.runtime.engines.trace.tracing import WARMUP_RUNS, EngineTrace


def read_device_trace(data: bytes, sources: SourceMap) -> EngineTrace:
    """Rows of the runs that were recorded, the first few left out: they were warming up.

    Raises:
        RunError: The trace is damaged, or holds no run.
    """
    with tempfile.TemporaryDirectory(prefix="edgex-trace-") as folder:
        file = Path(folder) / "trace.etdp"
        file.write_bytes(data)
        runs = read_etdump(file)
    return read_trace(runs[WARMUP_RUNS:] or runs, sources)
