"""What the QNN provider has against a graph, asked of the provider itself, node by node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from edgex.delegates.onnxruntime.graph import writer
from edgex.delegates.onnxruntime.kernels import MissingKernel
from edgex.delegates.plan import ReasonCode
from edgex.errors import LoweringError
from edgex.runtime.engines.qnn.trace import ask_trace
from edgex.runtime.support.disk.scratch import scratch_folder
from edgex.runtime.support.process.child import ChildEnded

# In the provider's reasons; the first that is found counts.
_CODES: tuple[tuple[str, ReasonCode], ...] = (
    (r"Operators of type \w+ are not supported", "not_in_delegate"),
    (r"(?i)cannot get shape|dynamic", "dynamic_shape"),
    (r"(?i)data ?type|dtype", "dtype"),
    (r"(?i)\brank\b", "rank"),
    (r"(?i)initializer|constant", "non_constant_weight"),
)
_BORDERS = ("QuantizeLinear", "DequantizeLinear")
# Computed with what is before them.
_ACTIVATIONS = ("Relu", "Clip")


def qnn_refusals(
    model: Any, *, options: Mapping[str, Any], fatal: bool, without_floats: str | None = None
) -> tuple[MissingKernel, ...]:
    """The nodes that QNN leaves, in graph order.

    Args:
        model: An `onnx_ir.Model`; its weights may be zeros.
        options: The provider's, which name the SoC.
        fatal: Whether that is in the way of the export.
        without_floats: The SoC, where nothing can be proved that it computes in floating point.

    Raises:
        LoweringError: QNN refuses no node and cannot compile them, or its compiler dies of them or takes too long.
    """
    dynamic = _dynamic_sizes(model)
    if dynamic:
        reason = f"QNN compiles for fixed sizes; {dynamic} is not fixed"
        return tuple(MissingKernel(node.name, "dynamic_shape", reason) for node in model.graph)
    if without_floats is not None and (unquantized := find_unquantized(model)):
        reason = f"it stays in floating point, where nothing is proved of {without_floats}: its simulator takes float32"
        instead = "a newer SoC computes them in float16: --option soc=sm8450"
        return tuple(MissingKernel(name, "dtype", reason, True, instead) for name in unquantized)
    with scratch_folder("qnn") as folder:
        writer.write_model(model, folder)
        try:
            trace = ask_trace(folder / writer.MODEL_FILE, folder, options)
        except ChildEnded as error:
            raise compiler_ended(error) from error
    if trace.failure is not None:
        too_large = "MEM_ALLOC" in trace.failure
        quantized = any(node.op_type == "QuantizeLinear" for node in model.graph)
        less = "" if quantized else " or --quantize int8, which takes half the memory"
        raise LoweringError(
            "QNN names no operator of this model that it leaves, and cannot compile it",
            fix=f"smaller inputs{less}; or another target: -t onnx-cpu"
            if too_large
            else "another --option soc=…, or another target: -t onnx-cpu",
            why=trace.failure,
        )
    workaround = "--option allow_fallback=true leaves it to the CPU" if fatal else None
    return tuple(MissingKernel(node.name, _code_of(node.reason), node.reason, fatal, workaround) for node in trace.left)


def compiler_ended(error: ChildEnded) -> LoweringError:
    """The error for a compiler that ended its process, or took too long."""
    return LoweringError(
        f"QNN cannot compile this model: {error.what}",
        fix="smaller inputs, or another target: -t onnx-cpu"
        if error.timed_out
        else "export to another target: -t onnx-cpu; and please report it",
        why=_without_banner(error.why),
    )


def find_unquantized(model: Any) -> list[str]:
    """Names of the nodes that compute in floating point, in graph order.

    ```
    DequantizeLinear -> Conv -> Relu -> QuantizeLinear    integers: a Relu or a Clip goes with what is before
    DequantizeLinear -> Sin -> Cos -> …                   Sin has no QuantizeLinear behind it, Cos none of the two
    ```
    """
    import onnx_ir

    floats = (onnx_ir.DataType.FLOAT, onnx_ir.DataType.FLOAT16)

    def enters(node: Any) -> bool:
        makers = [value.producer() for value in node.inputs if value is not None and value.dtype in floats]
        made = [maker for maker in makers if maker is not None]
        return bool(made) and all(
            maker.op_type == "DequantizeLinear"
            or (node.op_type in _ACTIVATIONS and len(maker.outputs[0].uses()) == 1 and enters(maker))
            for maker in made
        )

    def leaves(node: Any) -> bool:
        values = [value for value in node.outputs if value.dtype in floats]
        readers = [reader for value in values for reader, _ in value.uses()]
        return not any(value.is_graph_output() for value in values) and all(
            reader.op_type == "QuantizeLinear"
            or (reader.op_type in _ACTIVATIONS and len(readers) == 1 and leaves(reader))
            for reader in readers
        )

    return [
        node.name
        for node in model.graph
        if node.op_type not in _BORDERS
        and any(value.dtype in floats for value in node.outputs)
        and not (enters(node) and leaves(node))
    ]


def _without_banner(said: str | None) -> str | None:
    """What the process said at its end, without the line that the provider's library always begins with."""
    lines = [line for line in (said or "").splitlines() if "# LIBNATIVE:" not in line]
    return "\n".join(lines).strip() or None


def _dynamic_sizes(model: Any) -> str:
    """`dimension 0 of x`, for each size of an input that is not fixed."""
    return ", ".join(
        f"dimension {axis} of {value.name}"
        for value in model.graph.inputs
        for axis, size in enumerate(value.shape or ())
        if not isinstance(size, int)
    )


def _code_of(reason: str) -> ReasonCode:
    return next((code for pattern, code in _CODES if re.search(pattern, reason)), "attribute")
