"""What an onednn artifact costs to load and keep, and where its time goes: `python -m benchmarks.onednn.inside …`.

`inside ARTIFACT THREADS` prints JSON; `overhead THREADS` prints the cost of one delegate call in seconds.
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

TRACED_RUNS = 9
REGIONS = 32


def read_rss() -> dict[str, int]:
    """Resident bytes of this process: its own memory, and pages of files."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {name: int(fields[key].split()[0]) * 1024 for name, key in (("own", "RssAnon"), ("files", "RssFile"))}


def look_inside(artifact: Path, threads: int) -> dict[str, Any]:
    """Load, run, measure; then once more with events."""
    import edgex
    from edgex.runtime.artifact.golden import read_example
    from edgex.runtime.engines.onednn.plugin import OneDnnPlugin

    # What any artifact needs is loaded before.
    OneDnnPlugin().load()
    _read_through(artifact / "model.pte")
    before = read_rss()
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    session = edgex.load(artifact, threads=threads, check="size")
    loaded, peak = read_rss(), _read_peak() - before["own"] - before["files"]
    feed = list(read_example(session.artifact).values())
    seconds = []
    for _ in range(10):
        started = time.perf_counter()
        session.run(*feed)
        seconds.append(time.perf_counter() - started)
    steady = read_rss()
    load_seconds = session.runner.load_seconds
    session.close()
    compile_seconds = _compile_seconds()
    return {
        "load_seconds": load_seconds.method,
        "before": before,
        "loaded": loaded,
        "steady": steady,
        "peak": peak,
        "first_seconds": seconds[0],
        "steady_seconds": median(seconds[1:]),
        "compile_seconds": compile_seconds,
        "weight_bytes": _weight_bytes(artifact),
        "pte_bytes": (artifact / "model.pte").stat().st_size,
        "partitions": read_partitions(artifact, threads, feed),
    }


def _read_through(path: Path) -> None:
    """Bring a file into the system's cache: loading is measured, not the disk."""
    with path.open("rb") as file:
        while file.read(1 << 20):
            pass


def _read_peak() -> int:
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024


def _weight_bytes(artifact: Path) -> int:
    """Of the model in PyTorch: parameters and buffers, what is shared counted once."""
    import torch

    from benchmarks.zoo import MODELS

    module, _ = MODELS[artifact.name.split(".")[0]]()
    with torch.no_grad():
        storages = {t.data_ptr(): t.numel() * t.element_size() for t in (*module.parameters(), *module.buffers())}
    return sum(storages.values())


def _compile_seconds() -> float:
    from edgex.runtime.engines.onednn.build import built_backend

    library = ctypes.CDLL(str(built_backend()))  # loaded already: the same one
    library.edgex_onednn_compile_seconds.restype = ctypes.c_double
    return float(library.edgex_onednn_compile_seconds())


def read_partitions(artifact: Path, threads: int, feed: list[Any]) -> list[dict[str, Any]]:
    """The partitions of a run in order, with their median microseconds."""
    from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc

    import edgex

    runs: list[list[tuple[str, float]]] = []
    with (
        edgex.load(artifact, threads=threads, check="size", options={"trace": True}) as session,
        tempfile.TemporaryDirectory() as folder,
    ):
        for number in range(TRACED_RUNS):
            session.run(*feed)
            path = Path(folder) / f"{number}.etdp"
            session.runner.write_trace(path)
            content = path.read_bytes()
            dump = deserialize_from_etdump_flatcc(content, size_prefixed=content[4:6] != b"ED")
            events = [event.profile_event for data in dump.run_data[-1:] for event in data.events]
            inside = [event for event in events if event is not None and event.delegate_debug_id_str]
            runs.append([(e.delegate_debug_id_str, (e.end_time - e.start_time) / 1000) for e in inside])
    names = [name for name, _ in runs[-1]]
    return [
        {"name": name, "microseconds": round(median(run[i][1] for run in runs[2:] if len(run) == len(names)), 1)}
        for i, name in enumerate(names)
    ]


def measure_call(threads: int) -> float:
    """Seconds of one delegate call: a network of 32 of them, less the same without them, both with small operators."""
    import torch
    from torch import nn

    import edgex

    class Regions(nn.Module):
        def __init__(self, delegated: bool) -> None:
            super().__init__()
            self.delegated = delegated

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(REGIONS):
                x = x.cumsum(-1)  # not oneDNN's
                if self.delegated:
                    x = torch.relu(x)
            return x

    sessions = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("with", "without"):
            path = Path(folder) / f"{name}.onednn.edgex"
            model = Regions(name == "with").eval()
            edgex.export_model(model, (torch.rand(1, 8) * 0.1,), target="onednn", output=path)
            sessions.append(edgex.load(path, threads=threads))
        x = np.full((1, 8), 0.01, np.float32)
        rounds: list[list[float]] = [[], []]
        for _ in range(200):
            for number, session in enumerate(sessions):
                started = time.perf_counter()
                for _ in range(10):
                    session.run(x)
                rounds[number].append((time.perf_counter() - started) / 10)
        for session in sessions:
            session.close()
    return (median(rounds[0]) - median(rounds[1])) / REGIONS


def main() -> None:
    """See the module's description."""
    verb, *rest = sys.argv[1:]
    if verb == "inside":
        print(json.dumps(look_inside(Path(rest[0]), int(rest[1]))))
    else:
        print(json.dumps({"seconds": measure_call(int(rest[0]))}))


if __name__ == "__main__":
    main()
