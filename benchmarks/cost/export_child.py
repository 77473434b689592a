"""One export in a process of its own: `python -m benchmarks.cost.export_child SIDE TARGET MODEL`; prints JSON.

A tiny model goes through the same road first: after it, everything that either side imports is imported, and the
figures hold no import.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import models
from edgex.runtime.support.machine.memory import read_peak_rss_bytes

# Stages of edgex's export that prove the artifact; the bare side has nothing like them.
PROOF_STAGES = ("reference", "verify")


def export_with_edgex(module: Any, args: tuple[Any, ...], target: str, folder: Path) -> dict[str, float]:
    """The whole of edgex's export; seconds by stage."""
    from edgex.export.pipeline import export_to_targets
    from edgex.export.settings import ExportSettings
    from edgex.export.source.source import wrap_model

    settings = ExportSettings(targets=(target,), output=folder)
    source = wrap_model(module, args, {}, None, "model")
    report = export_to_targets(lambda: source, settings, name="model", stop_at_failure=True)
    return dict(report.artifacts[0].seconds)


def export_bare(module: Any, args: tuple[Any, ...], target: str, folder: Path) -> dict[str, float]:
    """The same calls as a careful user would write them."""
    import torch

    program = torch.export.export(module, args)
    if target == "onnx-cpu":
        onnx_program = torch.onnx.export(program, dynamo=True, verbose=False)
        onnx_program.save(folder / "model.onnx")
        return {}
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    with (folder / "model.pte").open("wb") as stream:
        lowered.write_to_file(stream)
    return {}


def main() -> None:
    """Warm up, export, print what it cost."""
    side, target, model = sys.argv[1:4]
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    export: Callable[[Any, tuple[Any, ...], str, Path], dict[str, float]]
    export = export_with_edgex if side == "edgex" else export_bare
    with tempfile.TemporaryDirectory() as folder:
        warm, cold = Path(folder) / "warm", Path(folder) / "cold"
        warm.mkdir()
        cold.mkdir()
        export(*models.tiny(), target, warm)
        module, args = getattr(models, model)()
        before = read_peak_rss_bytes()
        started = time.perf_counter()
        stages = export(module, args, target, cold)
        total = time.perf_counter() - started
        proof = sum(stages.get(stage, 0.0) for stage in PROOF_STAGES)
        answer = {
            "seconds": total - proof,
            "proof_seconds": proof,
            "stages": stages,
            "peak_rss_bytes": read_peak_rss_bytes(),
            "peak_rss_before_bytes": before,
            "child_peak_rss_bytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
            "file_bytes": sum(file.stat().st_size for file in cold.rglob("model.*") if file.is_file()),
        }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
