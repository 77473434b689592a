"""The one place that imports ai_edge_litert, and reaches for the names that it does not promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgex.errors import TargetUnavailable

INSTALL_COMMAND = "pip install 'edgex-toolchain[run-litert]'"
# `_get_ops_details` lists a region that a delegate took as one more operator of this name.
DELEGATE_OPERATOR = "DELEGATE"


def import_interpreter() -> Any:
    """The class `Interpreter`.

    Raises:
        TargetUnavailable: ai-edge-litert is not installed, or does not import.
    """
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise TargetUnavailable("ai-edge-litert does not import", why=str(error), fix=INSTALL_COMMAND) from error
    return Interpreter


def open_interpreter(path: Path, threads: int) -> Any:
    """An interpreter of a file, its tensors not allocated yet; XNNPACK takes what it can.

    Raises:
        TargetUnavailable: ai-edge-litert is not installed, or does not import.
        ValueError: LiteRT refuses the file.
    """
    return import_interpreter()(model_path=str(path), num_threads=threads)


def read_signature(interpreter: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Tensor number of each input and output of the only signature, by name, in the file's order.

    Raises:
        ValueError: The file has none, or several.
    """
    ((_name, signature),) = interpreter._get_full_signature_list().items()
    return dict(signature["inputs"]), dict(signature["outputs"])


def list_operators(interpreter: Any) -> list[str]:
    """Kinds of the operators as they will run, `FULLY_CONNECTED` for example, after tensors were allocated."""
    return [details["op_name"] for details in interpreter._get_ops_details()]
