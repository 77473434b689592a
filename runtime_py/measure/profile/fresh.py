"""Load and first run in a process of their own: `python -m edgex.runtime.measure.profile.fresh ARTIFACT --threads 2`.

In a warm process files are cached in the engine, thread pools run and memory is already taken; only a fresh one shows
what a user's program pays. The child imports the runtime only and prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgex.errors import EdgexError, RunError
from edgex.runtime.artifact.artifact import CheckLevel
from edgex.runtime.engines.base import PreloadingEngine
from edgex.runtime.measure.profile.report import FreshRun
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.session.session import Session

_MODULE = "edgex.runtime.measure.profile.fresh"
_LAST_LINES = 20


def run_fresh(artifact: Path, inputs: Path, settings: EngineSettings, check: CheckLevel) -> FreshRun:
    """Start a process that loads the artifact, runs it once and ends.

    Args:
        artifact: The artifact's folder.
        inputs: A .safetensors with the inputs by name, so that the child need not read the golden data.
        settings: Threads and engine settings of the run; the values must be JSON's.
        check: How the child checks the artifact.

    Raises:
        RunError: The process failed or was killed.
    """
    command = [sys.executable, "-m", _MODULE, str(artifact), "--inputs", str(inputs), "--check", check]
    command += ["--options", json.dumps(dict(settings.options))]
    if settings.threads is not None:
        command += ["--threads", str(settings.threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        ended = f"exit code {done.returncode}"
        if done.returncode < 0:
            ended = f"killed by {signal.Signals(-done.returncode).name}"
        raise RunError(
            f"the artifact ran here, but not in a fresh process: {ended}",
            where=artifact.name,
            why="\n".join(done.stderr.strip().splitlines()[-_LAST_LINES:]) or None,
            fix=f"see it alone: python -m {_MODULE} {artifact}",
        )
    # Engines may print banners to stdout; the answer is the last line.
    return FreshRun(**json.loads(done.stdout.strip().splitlines()[-1]))


def measure_here(path: str, inputs: str | None, settings: EngineSettings, check: CheckLevel) -> dict[str, Any]:
    """Load, run once and look at the memory of this process; the fields of `FreshRun`."""
    from safetensors.numpy import load_file

    from edgex.runtime.artifact.golden import read_example

    opening = open_measured(path, settings, check)
    return opening.first_run(read_example(opening.session.artifact) if inputs is None else load_file(inputs))


@dataclass(frozen=True)
class FreshSession:
    """A session that was just opened in this process, with what that took.

    Attributes:
        session: Open, and not run yet.
        seconds: `check`, `engine_import`, `program`, `method`, as in `LoadTimes`.
        stages: Peak resident bytes at the end of each stage so far; None where the system does not tell.
    """

    session: Session
    seconds: Mapping[str, float | None]
    stages: Mapping[str, int | None]

    def first_run(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Run once, with inputs by name; the fields of `FreshRun`."""
        from edgex.runtime.support.memory import read_peak_rss_bytes

        arrays = [values[spec.name] for spec in self.session.inputs]
        started = time.perf_counter()
        self.session.run(*arrays)
        seconds = {**self.seconds, "first": time.perf_counter() - started}
        peak = read_peak_rss_bytes()
        stages = {**self.stages, "first": peak}
        return {
            **{part: None if value is None else round(value, 9) for part, value in seconds.items()},
            "peak_rss_bytes": peak,
            "stages": {stage: size for stage, size in stages.items() if size is not None},
        }


def open_measured(path: str, settings: EngineSettings, check: CheckLevel) -> FreshSession:
    """Open an artifact in this process, which should be fresh, and take the time and the memory of each stage."""
    from edgex.runtime.artifact.artifact import open_artifact
    from edgex.runtime.engines.registry import get_engine
    from edgex.runtime.support.memory import read_peak_rss_bytes

    stages: dict[str, int | None] = {"interpreter": read_peak_rss_bytes()}
    artifact = open_artifact(path, check)
    engine = get_engine(artifact.manifest.engine)
    started = time.perf_counter()
    if isinstance(engine, PreloadingEngine):
        engine.preload()
        stages["engine"] = read_peak_rss_bytes()
    session = engine.open(artifact, settings)
    session.settings = settings
    open_seconds = time.perf_counter() - started
    stages["load"] = read_peak_rss_bytes()
    load = session.runner.load_seconds
    seconds = {
        "check": artifact.check_seconds,
        "engine_import": max(0.0, open_seconds - (load.program or 0.0) - load.method),
        "program": load.program,
        "method": load.method,
    }
    return FreshSession(session, seconds, stages)


def main(arguments: Sequence[str] | None = None) -> int:
    """The child's side."""
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}", description="Load an artifact and run it once.")
    parser.add_argument("artifact")
    parser.add_argument("--inputs", help="A .safetensors with the inputs; default: the artifact's example.")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--check", choices=["hash", "size"], default="hash")
    parser.add_argument("--options", type=json.loads, default={}, help="Engine settings, a JSON object.")
    given = parser.parse_args(arguments)
    settings = EngineSettings(given.threads, given.options)
    try:
        answer = measure_here(given.artifact, given.inputs, settings, given.check)
    except EdgexError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code
    print(json.dumps(answer))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
