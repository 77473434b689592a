"""The engine: runs what the delegate wrote. A device needs this side only, and neither torch nor the delegate."""

import time

import numpy as np

from edgex.plugin import Availability, LoadSeconds, RunError, Session
from edgex_numpy.kernels import KERNELS
from edgex_numpy.program import read_program
from edgex_numpy.trace import trace_runs


class NumpyEngine:
    def availability(self):
        return Availability(True)

    def versions(self):
        return {"numpy": np.__version__}

    def open(self, artifact, settings):
        return Session(artifact, self._make_runner(artifact, settings))

    def trace(self, artifact, settings, plan):
        runner = self._make_runner(artifact, settings)
        with Session(artifact, runner) as session:
            return trace_runs(session, runner, plan)

    def _make_runner(self, artifact, settings):
        if settings.options:
            raise RunError(f"the numpy engine has no options, but {', '.join(settings.options)} was given")
        if settings.threads is not None:
            raise RunError(
                "the numpy engine cannot choose its threads",
                fix="leave --threads out, and set OMP_NUM_THREADS",
                why="NumPy's library reads their number once, when it is imported",
            )
        return NumpyRunner(artifact.path)


class NumpyRunner:
    executed_on = "numpy: interpreter"
    threads = None  # NumPy does not say; a number here is what `--threads` gave or the default
    planned_arena_bytes = None

    def __init__(self, folder):
        started = time.perf_counter()
        self.program, self.weights = read_program(folder)
        self.step_seconds = None  # a list while operators are traced
        self.load_seconds = LoadSeconds(time.perf_counter() - started, 0.0)

    def execute(self, inputs):
        values = {**self.weights, **dict(zip(self.program["inputs"], inputs, strict=True))}
        for step in self.program["steps"]:
            args = [values[item["name"]] if isinstance(item, dict) else item for item in step["args"]]
            started = time.perf_counter()
            values[step["out"]] = KERNELS[step["op"]](*args)
            if self.step_seconds is not None:
                self.step_seconds.append(time.perf_counter() - started)
        return tuple(np.array(values[name]) for name in self.program["outputs"])

    def reset(self):
        """Nothing is kept between runs."""

    def close(self):
        self.weights = {}
