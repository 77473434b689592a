"""What oneDNN's own log says of the kernels that it ran: where one is a reference kernel, that is why it was slow."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edgex.runtime.support.process.programs import run_program

# The fields of a line: marker, `exec`, engine, primitive, implementation, propagation, tensors, attributes, more,
# sizes, milliseconds. Newer libraries put a version or a time behind the marker.
_MARKER, _EXECUTED = "onednn_verbose", "exec"
_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True)
class ReferenceKernel:
    """A primitive that ran one number at a time.

    Attributes:
        primitive: For example `matmul`.
        sizes: As oneDNN writes them.
        milliseconds: Of the slowest call.
    """

    primitive: str
    sizes: str
    milliseconds: float


def find_reference_kernels(lines: Iterable[str]) -> tuple[ReferenceKernel, ...]:
    """Those in a log, each kind and size once, the slowest first."""
    found: dict[tuple[str, str], float] = {}
    for line in lines:
        fields = line.strip().split(",")
        if fields[0] != _MARKER or _EXECUTED not in fields:
            continue
        primitive, implementation = fields[fields.index(_EXECUTED) + 2 :][:2]
        if not implementation.startswith("ref"):
            continue
        key = (primitive, fields[-2])
        found[key] = max(found.get(key, 0.0), float(fields[-1]))
    kernels = (ReferenceKernel(*key, milliseconds) for key, milliseconds in found.items())
    return tuple(sorted(kernels, key=lambda kernel: -kernel.milliseconds))


def log_of_artifact(artifact: Path) -> list[str]:
    """The log of one run on the golden inputs, in a process of its own, since it is asked for by the environment."""
    environment = {**os.environ, "DNNL_VERBOSE": "1", "ONEDNN_VERBOSE": "1"}
    command = [sys.executable, "-m", "edgex", "run", str(artifact)]
    try:
        done = run_program(command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []
