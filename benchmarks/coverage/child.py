"""The process that exports: imports once, then forks for each model that is asked for.

Importing torch, ExecuTorch, the ONNX exporter and the model libraries takes 15 seconds; a fork takes none, and each
model still has a process of its own, whose memory and death are its own. No thread is started before a fork.

```
parent -> {"model": …, "targets": […], "folder": …}
child  -> {"pid": …}            the export runs
child  -> {"status": …}         it ended; 0, or 128 + the signal's number; its report is FOLDER/report.json
```
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from benchmarks.coverage.outcome import DEFECT_CODE, without_paths
from benchmarks.coverage.suite import Entry, all_entries

REPORT = "report.json"
PROGRESS = "progress"


def main() -> int:
    """Serve until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed goes to the log
    _import_all()
    entries = {entry.name: entry for entry in all_entries()}
    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os._exit(_export_and_write(entries[asked["model"]], asked["targets"], Path(asked["folder"])))
        _answer(answers, {"pid": pid})
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        _answer(answers, {"status": status if status >= 0 else 128 - status})
    return 0


def _answer(stream: TextIO, document: Any) -> None:
    stream.write(json.dumps(document) + "\n")
    stream.flush()


def _import_all() -> None:
    """What most exports need; a library that is missing is missed by its models alone."""
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    import edgex.export.capture.program
    import edgex.export.pipeline
    import edgex.export.rewrites.proof

    with contextlib.suppress(ImportError):
        # XNNPACK's passes export a few patterns to look for, once a process: seconds.
        from executorch.backends.xnnpack.partition.graphs import bilinear_2d

        import edgex.delegates.xnnpack.partitioner

        bilinear_2d.get_graphs()
    with contextlib.suppress(ImportError):
        import edgex.delegates.onnxruntime.lowering  # noqa: F401
    with contextlib.suppress(ImportError):
        from benchmarks.zoo import _torchvision

        _torchvision()
    with contextlib.suppress(ImportError):
        import transformers  # noqa: F401
    with contextlib.suppress(ImportError):
        import timm  # noqa: F401


def _export_and_write(entry: Entry, targets: Sequence[str], folder: Path) -> int:
    """Export and leave the report; never raises."""
    try:
        report = export_entry(entry, targets, folder)
        (folder / REPORT).write_text(json.dumps(report), encoding="utf-8")
        return 0
    except BaseException:
        traceback.print_exc()
        return DEFECT_CODE


def export_entry(entry: Entry, targets: Sequence[str], folder: Path) -> dict[str, Any]:
    """Export one model to all targets, captured once.

    Args:
        entry: The model.
        targets: Names of delegates.
        folder: Receives the artifacts and the name of the present stage.

    Returns:
        The `edgex.export/2` document. An exception that is no `EdgexError` is in it with exit code 1: then the
        targets are tried one by one, since it ended the others with it.
    """
    try:
        return _export(entry, targets, folder)
    except Exception as error:
        if len(targets) > 1:
            reports = [export_entry(entry, [target], folder) for target in targets]
            return {key: [item for report in reports for item in report[key]] for key in ("artifacts", "failures")}
        traceback.print_exc()
        place = traceback.extract_tb(error.__traceback__)[-1]
        failure = {
            "target": targets[0],
            "stage": _last_stage(folder),
            "what": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}",
            "why": without_paths(f"{place.filename}:{place.lineno} in {place.name}"),
            "fix": None,
            "exit_code": DEFECT_CODE,
        }
        return {"artifacts": [], "failures": [failure]}


def _export(entry: Entry, targets: Sequence[str], folder: Path) -> dict[str, Any]:
    from edgex.errors import EdgexError
    from edgex.export.pipeline import export_to_targets
    from edgex.export.result import ExportReport, Failure
    from edgex.export.settings import ExportSettings
    from edgex.export.source.source import ModelSource, wrap_model

    def find() -> ModelSource:
        example = entry.make()
        return wrap_model(example.module, tuple(example.args), dict(example.kwargs), None, name)

    def note(stage: str, detail: str) -> None:
        (folder / PROGRESS).write_text(f"{stage} {detail}", encoding="utf-8")

    name = entry.name.split("/")[1]
    settings = ExportSettings(targets=tuple(targets), output=folder / "artifacts", force=True)
    try:
        report = export_to_targets(find, settings, name=name, progress=note)
    except EdgexError as error:  # before the first target: every target's failure
        report = ExportReport(None, None, failures=tuple(Failure(target, error) for target in targets))
    return report.to_json()


def _last_stage(folder: Path) -> str:
    try:
        return (folder / PROGRESS).read_text(encoding="utf-8").split(" ")[0]
    except OSError:
        return "start"


if __name__ == "__main__":
    sys.exit(main())
