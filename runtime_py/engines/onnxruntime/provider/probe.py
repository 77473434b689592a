"""Load a provider's library, and run a tiny model on it with both guards on: the last checks, in their own process."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgex.errors import EdgexError
from edgex.runtime.engines.onnxruntime.provider.all import PROVIDERS
from edgex.runtime.engines.onnxruntime.provider.sessions import ProviderChoice, open_on_provider
from edgex.runtime.engines.onnxruntime.session import import_onnxruntime
from edgex.runtime.support.process.child import Child
from edgex.runtime.support.process.serving import Tell

_TIMEOUT_SECONDS = 20.0

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


def answer(request: Mapping[str, Any], _tell: Tell) -> dict[str, Any]:
    """What a process of its own is asked: `{"do": "load" or "run", provider, library, options}`.

    Raises:
        EdgexError: It does not load, or the tiny model does not run.
    """
    library = request["library"]
    if request["do"] == "load":
        try:
            ctypes.CDLL(library)
        except OSError as error:
            raise EdgexError(f"OSError: {error}") from error
        return {}
    provider = PROVIDERS[request["provider"]]
    choice = ProviderChoice(provider, Path(library) if library else None, request.get("options", {}))
    return {"provider": run_probe(choice)}


def ask_probe(request: Mapping[str, Any]) -> dict[str, Any]:
    """Ask in a process of its own: a library of another version may end the process that loads it.

    Raises:
        EdgexError: See `answer`; or the process ended.
    """
    with Child(f"{__name__}:answer", "the process that tried it") as child:
        return child.ask(request, timeout_seconds=_TIMEOUT_SECONDS)
