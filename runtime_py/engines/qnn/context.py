"""The context binary: what the HTP's compiler makes of a model, for one SoC and one version of the provider.

`model_ctx.onnx` has one node that names `model_ctx_qnn.bin`. It loads without compiling, and runs on no other SoC.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgex.runtime.engines.onnxruntime.provider.sessions import ProviderChoice, open_on_provider
from edgex.runtime.engines.onnxruntime.session import import_onnxruntime
from edgex.runtime.engines.qnn.provider import QNN, find_htp, find_provider
from edgex.runtime.support.process.child import Child
from edgex.runtime.support.process.serving import Tell

CONTEXT_MODEL = "model_ctx.onnx"
CONTEXT_FILES = (CONTEXT_MODEL, "model_ctx_qnn.bin")
TIMEOUT_SECONDS = 1800.0


def compile_context(folder: Path, model: str, options: Mapping[str, Any]) -> None:
    """Compile a model, in a process of its own, and write `CONTEXT_FILES` beside it.

    Args:
        folder: Where the model is.
        model: Its file's name.
        options: The provider's options by our names.

    Raises:
        EdgexError: The provider refuses it, or cannot be used here.
        ChildEnded: The compiler ended its process, or took too long.
    """
    request = {"folder": str(folder), "model": model, "options": dict(options)}
    with Child(f"{__name__}:answer", "the process in which QNN compiled the context") as child:
        child.ask(request, timeout_seconds=TIMEOUT_SECONDS)


def answer(request: Mapping[str, Any], _tell: Tell) -> dict[str, Any]:
    """The child's side. Names in the files follow from the model's path, so it is one that is the same everywhere.

    Raises:
        EdgexError: The provider refuses the model, or cannot be used here.
    """
    os.chdir(request["folder"])
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for key, value in (("enable", "1"), ("file_path", CONTEXT_MODEL), ("embed_mode", "0")):
        options.add_session_config_entry(f"ep.context_{key}", value)
    given = {**request["options"], "backend_path": str(find_htp())}
    open_on_provider(onnxruntime, request["model"], options, ProviderChoice(QNN, find_provider(), given))
    return {}
