"""An environment: a Python with edgex, asked through its own command line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgex.errors import TargetUnavailable, UsageError
from edgex.runtime.support.process.programs import run_program

# What decides an artifact: of these, the versions that are installed.
_PACKAGES = ("edgex-toolchain", "torch", "executorch", "torchao", "onnx", "onnxscript", "onnxruntime", "numpy")
_ASK = (
    "import json, sys; from importlib import metadata as m\n"
    "def version(name):\n"
    "    try: return m.version(name)\n"
    "    except m.PackageNotFoundError: return None\n"
    "import edgex\n"
    "print(json.dumps({'python': sys.version.split()[0], **{name: version(name) for name in sys.argv[1:]}}))"
)
# Of this process's environment: what would bring its packages into another.
_OWN_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")

_LAST_LINES = 5


@dataclass(frozen=True)
class Environment:
    """A Python that has edgex.

    Attributes:
        python: The interpreter.
        versions: Of Python and of what decides an artifact; None for what is not installed.
    """

    python: Path
    versions: dict[str, str | None]

    def ask(self, arguments: Sequence[str]) -> tuple[int, dict[str, Any] | None, str]:
        """Run an edgex command with `--json`.

        Args:
            arguments: The command's.

        Returns:
            Its exit code; the document, None where it printed none; the last lines of what it said besides.
        """
        command: list[str | Path] = [self.python, "-m", "edgex", *arguments, "--json"]
        done = run_program(command, capture_output=True, text=True, env=_variables(self.python))
        try:
            document = json.loads(done.stdout)
        except ValueError:
            document = None
        said = "\n".join(done.stderr.strip().splitlines()[-_LAST_LINES:])
        return done.returncode, document if isinstance(document, dict) else None, said


def open_environment(place: Path | None) -> Environment:
    """An environment by its folder or its interpreter; None is this one.

    Raises:
        UsageError: There is no interpreter.
        TargetUnavailable: It has no edgex.
    """
    python = Path(sys.executable) if place is None else _find_python(place)
    done = run_program([python, "-c", _ASK, *_PACKAGES], capture_output=True, text=True, env=_variables(python))
    if done.returncode:
        raise TargetUnavailable(
            f"{python} cannot import edgex",
            fix=f"in a clone of edgex: {python} -m pip install '.[xnnpack,onnx]'; a wheel of edgex will do too",
            why=done.stderr.strip().splitlines()[-1] if done.stderr.strip() else None,
        )
    return Environment(python, json.loads(done.stdout))


def _find_python(place: Path) -> Path:
    for path in (place / "bin" / "python", place):
        if path.is_file() and os.access(path, os.X_OK):
            return path.absolute()  # not resolved: an environment is known by the link's place
    raise UsageError(f"{place} is no environment", why="there is no bin/python in it", fix="python -m venv makes one")


def _variables(python: Path) -> dict[str, str]:
    if python == Path(sys.executable):
        return dict(os.environ)
    return {name: value for name, value in os.environ.items() if name not in _OWN_VARIABLES}
