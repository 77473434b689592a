"""What the QNN provider makes of a model: which nodes it takes, and why it leaves the others.

It writes that itself, as `qnn_op_trace.json`, whenever it looks at a graph; for an operator whose form the HTP refuses
it gives the error's number on its log only. Asked in a process of its own: a graph may end the compiler.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgex.errors import RunError
from edgex.runtime.engines.onnxruntime.provider.sessions import ProviderChoice, open_on_provider
from edgex.runtime.engines.onnxruntime.session import import_onnxruntime
from edgex.runtime.engines.qnn.provider import QNN, find_htp, find_provider
from edgex.runtime.support.process.child import Child
from edgex.runtime.support.process.serving import Tell

_TRACE, _LOG = "qnn_op_trace.json", "provider.log"
_REFUSED = re.compile(r"failed for node `(?P<node>[^`]+)` of type `(?P<type>\w+)` with error code (?P<code>\d+)")
_WARNING = 2
TIMEOUT_SECONDS = 900.0


@dataclass(frozen=True)
class LeftNode:
    """A node that the provider leaves.

    Attributes:
        name: The ONNX node's.
        op_type: Its operator.
        reason: The provider's, one sentence.
    """

    name: str
    op_type: str
    reason: str


@dataclass(frozen=True)
class OpTrace:
    """What the provider said of a model.

    Attributes:
        left: The nodes that it leaves, in graph order.
        failure: Why it cannot compile what it takes; None where it can.
    """

    left: tuple[LeftNode, ...]
    failure: str | None = None


def ask_trace(model: Path, folder: Path, options: Mapping[str, Any]) -> OpTrace:
    """Have the provider look at a model.

    Args:
        model: `model.onnx`.
        folder: Where the provider may write.
        options: The provider's options by our names.

    Raises:
        EdgexError: The provider cannot be used here.
        ChildEnded: The compiler ended its process, or took too long.
    """
    request = {"model": str(model), "folder": str(folder), "options": dict(options)}
    with Child(f"{__name__}:answer", "the process in which QNN compiled the model") as child:
        found = child.ask(request, timeout_seconds=TIMEOUT_SECONDS)
    return OpTrace(tuple(LeftNode(**node) for node in found["left"]), found["failure"])


def answer(request: Mapping[str, Any], _tell: Tell) -> dict[str, Any]:
    """The child's side: open the model strictly, and read what the provider wrote.

    Raises:
        EdgexError: The provider cannot be used here.
    """
    folder = Path(request["folder"])
    log = os.open(folder / _LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(log, 2)
    onnxruntime = import_onnxruntime()
    # The reasons are warnings; ONNX Runtime's own are on the same log.
    onnxruntime.set_default_logger_severity(_WARNING)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _WARNING
    given = {
        **request["options"],
        "backend_path": str(find_htp()),
        "enable_framework_op_trace": True,
        "framework_op_trace_dir": str(folder),
    }
    failure = None
    try:
        open_on_provider(onnxruntime, request["model"], options, ProviderChoice(QNN, find_provider(), given))
    except RunError as error:
        failure = error.why or error.what
    if not (folder / _TRACE).is_file():
        # Its compiler gives up before it tells: a graph that does not fit into the HTP's memory, for example.
        return {"left": [], "failure": failure or "the QNN provider says nothing of the model"}
    left = read_trace((folder / _TRACE).read_text(), (folder / _LOG).read_text(errors="replace"))
    return {"left": [vars(node) for node in left], "failure": None if left else failure}


def read_trace(trace: str, log: str) -> list[LeftNode]:
    """The nodes that are left.

    Args:
        trace: What the provider has written.
        log: What it has logged meanwhile.
    """
    refused = {match["node"]: match for match in _REFUSED.finditer(log)}
    return [
        LeftNode(node["node_name"], node["op_type"], _sentence(node, refused.get(node["node_name"])))
        for node in json.loads(trace).get("unsupported_nodes", ())
    ]


def _sentence(node: Mapping[str, Any], refused: re.Match[str] | None) -> str:
    if refused is not None:
        return f"the HTP takes no {refused['type']} of this form (QNN error {refused['code']})"
    said = str(node["reason"])
    kind = node["op_type"]
    if said == "Failed to add node.":
        if kind in ("QuantizeLinear", "DequantizeLinear"):
            return f"{kind} goes with the operator beside it, which is left"
        return f"QNN's {kind} does not take this form"
    # `Operators of type `Erf` are not supported by QNN EP.Erf node `x` will not be assigned to QNN EP.`
    return said.split(f"{kind} node `")[0].replace("`", "").strip().rstrip(".")
