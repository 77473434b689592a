"""What OpenVINO makes of an ONNX file: which nodes it does not convert, or has no kernel for."""

from __future__ import annotations

from pathlib import Path

from edgex.runtime.engines.openvino.binding import import_openvino, sentence

_NOT_CONVERTED = ("ONNXFrameworkNode", "ONNXSubgraphFrameworkNode", "FrameworkNode")


def find_refused(path: Path) -> list[tuple[str, str]]:
    """Nodes that are in the way of running a file on OpenVINO's CPU plug-in, each with the reason; empty if none is.

    Args:
        path: `model.onnx`, its external data beside it.
    """
    openvino = import_openvino()
    core = openvino.Core()
    try:
        model = core.read_model(str(path))
        taken = set(core.query_model(model, "CPU"))
    except Exception as error:  # OpenVINO's errors are RuntimeErrors of no common kind
        named = _find_unconverted(path)
        return [(name, "OpenVINO does not convert it from ONNX") for name in named] or [("model.onnx", sentence(error))]
    everything = [operation.get_friendly_name() for operation in model.get_ordered_ops()]
    return [(name, "OpenVINO's CPU plug-in has no kernel for it") for name in everything if name not in taken]


def _find_unconverted(path: Path) -> list[str]:
    """Names of the nodes that stay as they were in ONNX."""
    from openvino.frontend import FrontEndManager

    frontend = FrontEndManager().load_by_framework("onnx")
    try:
        model = frontend.convert_partially(frontend.load(str(path)))
    except Exception:  # what stops even that has been told by the first error
        return []
    operations = model.get_ordered_ops()
    return [one.get_friendly_name() for one in operations if one.get_type_name() in _NOT_CONVERTED]
