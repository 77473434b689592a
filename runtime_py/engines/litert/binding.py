"""The one place that imports ai_edge_litert, and reaches for the names that it does not promise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgex.errors import TargetUnavailable
from edgex.runtime.support.machine.c_library import suggest_fix

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
        raise TargetUnavailable(
            "ai-edge-litert does not import", why=str(error), fix=suggest_fix(str(error), INSTALL_COMMAND)
        ) from error
    return Interpreter


def open_interpreter(path: Path, threads: int) -> Any:
    """An interpreter of a file, its tensors not allocated yet; XNNPACK takes what it can.

    Raises:
        TargetUnavailable: ai-edge-litert is not installed, or does not import.
        ValueError: LiteRT refuses the file.
    """
    return import_interpreter()(model_path=str(path), num_threads=threads)


class Subgraph:
    """What one signature of a file runs; `Interpreter` itself speaks of the first one only.

    Attributes:
        inputs: Tensor number of each input, by name, in the file's order.
        outputs: The same of each output.
    """

    def __init__(self, interpreter: Any, name: str) -> None:
        """Find it, and give its tensors memory.

        Args:
            interpreter: Of `open_interpreter`.
            name: The signature's; where the file has only one, that is taken whatever it is called.

        Raises:
            ValueError: The file has no such signature, or LiteRT refuses it.
            RuntimeError: LiteRT refuses it.
        """
        signatures = interpreter._get_full_signature_list()
        if not signatures:
            raise ValueError("the file has no signature")
        key = next(iter(signatures)) if len(signatures) == 1 else name
        if key not in signatures:
            raise ValueError(f"the file has no signature {name}")
        self.inputs: dict[str, int] = dict(signatures[key]["inputs"])
        self.outputs: dict[str, int] = dict(signatures[key]["outputs"])
        self._native = interpreter._interpreter
        self._index = self._native.GetSubgraphIndexFromSignature(key)
        self._native.AllocateTensors(self._index)

    def run(self, inputs: Sequence[tuple[int, np.ndarray]], outputs: Sequence[int]) -> list[np.ndarray]:
        """Run once. LiteRT copies the inputs; the outputs are copies, owned by the caller.

        Args:
            inputs: Each with its tensor number.
            outputs: Tensor numbers.

        Raises:
            ValueError: LiteRT refuses an input, or fails.
            RuntimeError: It fails.
        """
        native, index = self._native, self._index
        for number, array in inputs:
            native.SetTensor(number, array, index)
        native.Invoke(index)
        return [native.GetTensor(number, index) for number in outputs]


def list_operators(interpreter: Any) -> list[str]:
    """Kinds of the operators as they will run, `FULLY_CONNECTED` for example, after tensors were allocated."""
    return [details["op_name"] for details in interpreter._get_ops_details()]
