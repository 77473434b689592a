"""Run a tiny model on the GPU provider with both guards on, and print who ran it: the last check, in its own process.

`python -m edgex.runtime.engines.rocm.probe [LIBRARY]`
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgex.errors import EdgexError
from edgex.runtime.engines.onnxruntime.session import import_onnxruntime
from edgex.runtime.engines.rocm.providers import ProviderChoice, open_on_provider

# y = x + x for four float32, opset 18, IR 8: what onnx.helper makes of it.
MODEL = bytes.fromhex(
    "08083a3e0a130a01780a01781201791a036164642203416464120570726f62655a0f0a0178120a0a08080112040a02"
    "0804620f0a0179120a0a08080112040a02080442040a001012"
)


def run_probe(choice: ProviderChoice) -> str:
    """Who ran the tiny model, for example `MIGraphXExecutionProvider`.

    Raises:
        EdgexError: It does not run there, or computes something else.
    """
    onnxruntime = import_onnxruntime()
    opened = open_on_provider(onnxruntime, MODEL, onnxruntime.SessionOptions(), choice)
    x = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
    (y,) = opened.session.run(None, {"x": x})
    if not np.array_equal(y, x + x):
        raise EdgexError(f"{opened.providers[0]} computes {y.tolist()} for {(x + x).tolist()}")
    return opened.providers[0]


def main(arguments: Sequence[str]) -> int:
    """Print the provider, or what is in the way with exit code 1."""
    try:
        print(run_probe(ProviderChoice(Path(arguments[0]) if arguments else None)))  # noqa: T201
    except EdgexError as error:
        print(f"{error.what}: {error.why}" if error.why else error.what)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
