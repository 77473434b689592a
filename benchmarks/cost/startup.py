"""How long the command line takes to start, beside bare Python doing the same."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.outcome import Goal, Outcome, show_seconds
from benchmarks.processes import run_process, time_commands
from edgex.runtime.report.figures import format_seconds

NAME = "startup"
ROUNDS, QUICK_ROUNDS = 7, 3

_BARE_ONNX = """
import sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1] + "/model.onnx", providers=["CPUExecutionProvider"])
print(session.run(None, {"x": numpy.ones((1, 8), numpy.float32)}))
"""
_BARE_PTE = """
import sys, torch
from executorch.extension.pybindings import _C
program = _C._load_program(sys.argv[1] + "/model.pte", enable_etdump=False, debug_buffer_size=0)
print(program.load_method("forward")([torch.ones(1, 8)]))
"""
_PUBLIC_PTE = """
import sys, torch
from executorch.runtime import Runtime
program = Runtime.get().load_program(sys.argv[1] + "/model.pte")
print(program.load_method("forward").execute([torch.ones(1, 8)]))
"""


def measure(quick: bool) -> Outcome:
    """Time fresh processes in turns."""
    python, edgex = sys.executable, [sys.executable, "-m", "edgex"]
    with tempfile.TemporaryDirectory() as folder:
        targets = "onnx-cpu,xnnpack"
        run_process([*edgex, "export", "benchmarks/models.py:tiny", "-t", targets, "-o", folder, "-q"])
        onnx, pte = (str(Path(folder) / f"tiny.{target}.edgex") for target in targets.split(","))
        commands = {
            "python -c pass": [python, "-c", "pass"],
            "edgex --help": [*edgex, "--help"],
            "edgex run, onnx": [*edgex, "run", onnx],
            "bare onnxruntime": [python, "-c", _BARE_ONNX, onnx],
            "edgex run, pte": [*edgex, "run", pte],
            "bare torch and ExecuTorch binding": [python, "-c", _BARE_PTE, pte],
            "bare executorch.runtime": [python, "-c", _PUBLIC_PTE, pte],
        }
        seconds = time_commands(commands, QUICK_ROUNDS if quick else ROUNDS, NAME)
    medians = {name: median(values) for name, values in seconds.items()}
    return Outcome(
        NAME,
        "Start-up of the command line",
        (
            "Wall time of fresh processes from start to end, one of each in every round, in alternating order.",
            "The bare rows are `python -c` scripts that import the engine, load the same tiny file and run it once; "
            "`executorch.runtime` is ExecuTorch's documented door.",
        ),
        ("command", "median (range)"),
        [[name, show_seconds(values)] for name, values in seconds.items()],
        [
            _goal("edgex --help", medians["edgex --help"], 0.15),
            _goal("edgex run of an onnx artifact", medians["edgex run, onnx"], 0.5),
        ],
        {"seconds": seconds},
    )


def _goal(what: str, seconds: float, limit: float) -> Goal:
    return Goal(f"{what} within {format_seconds(limit)}", format_seconds(seconds), seconds <= limit)
