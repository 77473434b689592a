"""Operators out of an ETDump that a device recorded."""

from __future__ import annotations

from edgex.runtime.engines.executorch.trace.etdump import read_etdump
from edgex.runtime.engines.executorch.trace.reader import read_trace
from edgex.runtime.engines.trace.source_map import SourceMap
from edgex.runtime.engines.trace.tracing import WARMUP_RUNS, EngineTrace
from edgex.runtime.support.disk.scratch import scratch_folder


def read_device_trace(data: bytes, sources: SourceMap) -> EngineTrace:
    """Rows of the runs that were recorded, the first few left out: they were warming up.

    Raises:
        RunError: The trace is damaged, or holds no run.
    """
    with scratch_folder("trace") as folder:
        file = folder / "trace.etdp"
        file.write_bytes(data)
        runs = read_etdump(file)
    return read_trace(runs[WARMUP_RUNS:] or runs, sources)
