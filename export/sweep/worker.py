"""The process that exports: it imports once, and forks for each task, whose memory and death are its own.

Importing torch and the exporters takes seconds; a fork takes none. No thread is started before a fork, so that none is
missing after it. The limits of a task hold for its process and for whatever that starts.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from edgex.export.sweep.exporting import export_model
from edgex.export.sweep.placing import is_url, place_artifacts
from edgex.export.sweep.plan import GIB, Limits, settings_of_kind
from edgex.export.sweep.task import ExportTask
from edgex.runtime.support.disk.scratch import scratch_folder
from edgex.runtime.support.process.lifetime import end_with_parent
from edgex.runtime.support.process.serving import Tell

_ANSWER, _LOG, _STAGE = "answer.json", "log", "stage"
_LAST_LINES = 15
# Between two looks: short for what takes milliseconds, longer for what takes minutes.
_FIRST_LOOK_SECONDS, _LOOK_SECONDS = 0.002, 0.1
TIMEOUT_CODE, MEMORY_CODE = 124, 137


class Worker:
    """Answers tasks, one after the other, each from a process of its own."""

    def __init__(self) -> None:
        _import_all()

    def __call__(self, request: Mapping[str, Any], _tell: Tell) -> Mapping[str, Any]:
        """Run a task to its end, whatever that is.

        Args:
            request: An `ExportTask` as JSON.
        """
        task = ExportTask.from_json(request)
        _preload(task)
        with scratch_folder("sweep") as folder:
            process = os.getpid()
            child = os.fork()
            if child == 0:
                _live_as_child(task, folder, process)
            ending, code, reason = _watch(child, task.limits)
            answer: dict[str, Any] = {}
            if ending == "done":
                with suppress(OSError, ValueError):
                    answer = json.loads((folder / _ANSWER).read_text(encoding="utf-8"))
                if not answer:
                    ending, reason = "crashed", f"its process ended with exit code {code} and said nothing"
            log, stage = _read(folder / _LOG), _read(folder / _STAGE)
        return {
            "ending": ending,
            "answer": answer,
            "machine": platform.node(),
            "reason": reason,
            "stage": stage,
            "exit_code": 0 if ending == "done" else code or 1,
            "log": "\n".join(log.strip().splitlines()[-_LAST_LINES:]),
        }


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _import_all() -> None:
    """What exports need, once."""
    import torch

    torch.set_num_threads(1)
    import edgex.delegates.registry as registry
    import edgex.export.capture.program
    import edgex.export.pipeline
    import edgex.export.rewrites.proof  # noqa: F401

    for name in registry.delegate_names():
        registry.get_delegate(name)


def _preload(task: ExportTask) -> None:
    """Import what most models need; what is missing is missed by the models that need it, with their own line."""
    if task.preload and task.folder not in sys.path:
        sys.path.append(task.folder)
    for name in task.preload:
        if name not in sys.modules:
            with suppress(ImportError):
                importlib.import_module(name)


def _live_as_child(task: ExportTask, folder: Path, parent: int) -> NoReturn:
    """The fork's whole life; ends in os._exit so that the stack of the worker is never unwound twice."""
    try:
        # A group of its own: it is ended with whatever it has started.
        os.setsid()
        end_with_parent(parent)
        log = os.open(folder / _LOG, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(task.folder)
        results = _export(task, folder)
        (folder / _ANSWER).write_text(json.dumps(results), encoding="utf-8")
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _export(task: ExportTask, folder: Path) -> dict[str, Any]:
    """`{target: result}`, artifacts at their place."""
    local = folder if task.output is None or is_url(task.output) else Path(task.output)
    settings = settings_of_kind(task.candidates, task.options, task.calibration, local)

    def note(stage: str) -> None:
        (folder / _STAGE).write_text(stage, encoding="utf-8")

    results = place_artifacts(export_model(task.model, settings, task.model.file_name, note), task.output)
    return {target: result.to_json() for target, result in results.items()}


def _watch(child: int, limits: Limits) -> tuple[str, int, str]:
    """Wait for a fork, or end it: how it ended, its exit code, and a sentence."""
    deadline = time.monotonic() + limits.seconds
    wait_seconds = _FIRST_LOOK_SECONDS
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            _end_group(child)  # what it left behind
            if code >= 0:
                return "done", code, ""
            name = signal.Signals(-code).name
            hint = "; most often that is the system, because memory ran out" if name == "SIGKILL" else ""
            return "crashed", 128 - code, f"its process was killed by {name}{hint}"
        if time.monotonic() > deadline:
            _end(child)
            return "timeout", TIMEOUT_CODE, f"stopped after {limits.seconds:g} s, the limit for one task"
        if wait_seconds >= _LOOK_SECONDS and _memory_of(child) > limits.memory_bytes:
            _end(child)
            return "memory", MEMORY_CODE, f"stopped at {limits.memory_bytes / GIB:.3g} GiB, the limit for one task"
        time.sleep(wait_seconds)
        wait_seconds = min(1.5 * wait_seconds, _LOOK_SECONDS)


def _end(child: int) -> None:
    _end_group(child)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _end_group(child: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def _memory_of(child: int) -> int:
    """Resident bytes of a process and of those that it started; pages that forks share count for each."""
    import psutil

    try:
        process = psutil.Process(child)
        return sum(one.memory_info().rss for one in (process, *process.children(recursive=True)))
    except psutil.Error:
        return 0
