"""The engine: runs what the delegate wrote. A device needs this side only, and neither torch nor the delegate."""

import time

import numpy as np

from edgex.plugin import Availability, LoadSeconds, RunError, Session
from edgex_numpy.kernels import KERNELS
from edgex_numpy.program import read_program


class NumpyEngine:
    def availability(self):
        return Availability(True)

    def versions(self):
        return {"numpy": np.__version__}

    def open(self, artifact, settings):
        if settings.options:
            raise RunError(f"the numpy engine has no options, but {', '.join(settings.options)} was given")
        return Session(artifact, NumpyRunner(artifact.path))


class NumpyRunner:
    executed_on = "numpy: interpreter"
    threads = None
    planned_arena_bytes = None

    def __init__(self, folder):
        started = time.perf_counter()
        self.program, self.weights = read_program(folder)
        self.load_seconds = LoadSeconds(time.perf_counter() - started, 0.0)

    def execute(self, inputs):
        values = {**self.weights, **dict(zip(self.program["inputs"], inputs, strict=True))}
        for step in self.program["steps"]:
            args = [values[item["name"]] if isinstance(item, dict) else item for item in step["args"]]
            values[step["out"]] = KERNELS[step["op"]](*args)
        return tuple(np.array(values[name]) for name in self.program["outputs"])

    def reset(self):
        """Nothing is kept between runs."""

    def close(self):
        self.weights = {}
