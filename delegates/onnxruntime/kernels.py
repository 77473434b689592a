"""Ask ONNX Runtime, node by node and without weights, whether it has a kernel: better now than when it is loaded.

Each distinct node (operator, attributes, input dtypes) becomes a model of its own, for which a session is
created: about 0.4 ms each, a few dozen even for large models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from edgex.delegates.plan import ReasonCode
from edgex.runtime.engines.onnxruntime.session import import_onnxruntime
from edgex.runtime.support.native_stderr import capture_native_stderr

# What ONNX Runtime says when it cannot run a node. Any other refusal of a lone node may come from its being
# alone (a rank that only the whole graph tells), and is left to the run that proves the artifact.
_NO_KERNEL = "Could not find an implementation for"
_TYPE_ERROR = "Type Error"


@dataclass(frozen=True)
class MissingKernel:
    """A node that a provider of ONNX Runtime cannot run.

    Attributes:
        node: Name of the ONNX node.
        code: `no_kernel`, or `dtype` where the ONNX operator itself does not allow the dtype; another where a
            provider has more to say.
        reason: One sentence.
        fatal: Nothing else can run it either, or may.
        workaround: See `Fallback.workaround`.
    """

    node: str
    code: ReasonCode
    reason: str
    fatal: bool = True
    workaround: str | None = None


def missing_kernels(model: Any) -> tuple[MissingKernel, ...]:
    """The nodes that ONNX Runtime's CPU provider has no kernel for, in graph order.

    Args:
        model: An `onnx_ir.Model`. Nodes whose input types are not all known, and nodes that hold subgraphs or
            call functions of the model, are not judged themselves; nodes inside subgraphs are.
    """
    answers: dict[bytes, tuple[Literal["no_kernel", "dtype"], str] | None] = {}
    missing = []
    for node in _probable(model):
        alone = _lone_model(model, node)
        if alone not in answers:
            answers[alone] = _refusal(alone, node)
        if answer := answers[alone]:
            missing.append(MissingKernel(node.name, *answer))
    return tuple(missing)


def _probable(model: Any) -> Iterator[Any]:
    import onnx_ir

    for node in onnx_ir.traversal.RecursiveGraphIterator(model.graph):
        holds_graph = any(a.type.name in ("GRAPH", "GRAPHS") for a in node.attributes.values())
        typed = all(isinstance(value.type, onnx_ir.TensorType) for value in node.inputs if value is not None)
        if typed and not holds_graph and node.op_identifier() not in model.functions:
            yield node


def _lone_model(model: Any, node: Any) -> bytes:
    """A serialized model with this node only; equal for nodes that need the same kernel."""
    import onnx
    import onnx_ir

    alone = onnx.ModelProto(ir_version=model.ir_version)
    for domain, version in sorted(model.graph.opset_imports.items()):
        alone.opset_import.add(domain=domain, version=version)
    alone.graph.name = "probe"
    proto = alone.graph.node.add()
    proto.CopyFrom(onnx_ir.serde.serialize_node(node))
    proto.ClearField("name")
    proto.ClearField("metadata_props")
    renamed: dict[str, str] = {}
    for index, value in enumerate(node.inputs):
        if value is None:
            continue
        if value.name not in renamed:
            renamed[value.name] = f"i{index}"
            entry = alone.graph.input.add(name=f"i{index}")
            entry.type.tensor_type.elem_type = int(value.dtype)
        proto.input[index] = renamed[value.name]
    for index, name in enumerate(proto.output):
        if name:
            proto.output[index] = f"o{index}"
            alone.graph.output.add(name=f"o{index}")
    serialized: bytes = alone.SerializeToString(deterministic=True)
    return serialized


def _refusal(alone: bytes, node: Any) -> tuple[Literal["no_kernel", "dtype"], str] | None:
    with capture_native_stderr():
        onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        onnxruntime.InferenceSession(alone, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exception classes have no common public base
        dtypes = ", ".join(dict.fromkeys(value.dtype.name.lower() for value in node.inputs if value is not None))
        name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        if _NO_KERNEL in str(error):
            return "no_kernel", f"ONNX Runtime's CPU provider has no kernel for {name} with inputs of type {dtypes}"
        if _TYPE_ERROR in str(error):
            return "dtype", f"ONNX does not define {name} for inputs of type {dtypes}"
    return None
