"""From a captured program to an ONNX model, for every ONNX Runtime target.

```
lift_state -> torch.onnx.export -> optimize -> names, axes, kernels -> plan, files, source map
```
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.onnxruntime import border, kernels, source_map, writer
from edgex.delegates.onnxruntime.graphs import operators
from edgex.delegates.onnxruntime.quiet import quiet_exporter
from edgex.delegates.onnxruntime.state import STATE_FILE, LiftedProgram, lift_state
from edgex.delegates.onnxruntime.torch_registry import view_as_exporter
from edgex.delegates.onnxruntime.versions import OLDEST_RUNTIME
from edgex.delegates.plan import Fallback, PartitionPlan, group_fallbacks
from edgex.delegates.provenance import source_of
from edgex.delegates.work import sum_flops
from edgex.errors import LoweringError
from edgex.runtime.manifest import Method, Requirements

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

# Dtypes whose arrays NumPy or ONNX Runtime cannot hand over.
_NO_BORDER = ("complex64", "bfloat16")

_OTHER_TARGET = "rewrite the operators at these lines, or use another target: --target xnnpack, --target reference"


@dataclass(frozen=True)
class _Translation:
    """An ONNX model, or what is in its way.

    Attributes:
        plan: What was taken and what not.
        lifted: The program without mutated buffers.
        model: An `onnx_ir.Model`; None where it could not be made.
        origins: ONNX node name -> the operator it came from.
    """

    plan: PartitionPlan
    lifted: LiftedProgram
    model: Any | None = None
    origins: dict[str, Node] = field(default_factory=dict)


def plan_program(program: CapturedProgram, opset: int) -> PartitionPlan:
    """What `lower_program` would take and leave; weights may be fake tensors.

    Raises:
        LoweringError: The program cannot be decomposed or translated for a reason that no operator explains.
    """
    with quiet_exporter():
        return _translate(program, opset).plan


def lower_program(program: CapturedProgram, opset: int, engine: str) -> LoweredModule:
    """Translate the program.

    Raises:
        LoweringError: Something in it cannot be translated or run; all of it is named.
    """
    with quiet_exporter():
        translation = _translate(program, opset)
    model = translation.model
    if model is None or translation.plan.fatal:
        raise _refusal(translation.plan)
    lifted = translation.lifted
    method = program.method
    files = writer.native_files(model) + ((STATE_FILE,) if lifted.carried else ())

    def write(folder: Path) -> None:
        writer.write_model(model, folder)
        if lifted.carried:
            _write_state(lifted, folder)

    return LoweredModule(
        files=files,
        write=write,
        methods=(Method(method.name, method.inputs, method.outputs, lifted.state),),
        plan=translation.plan,
        requirements=Requirements(engine, OLDEST_RUNTIME[opset]),
        debug=source_map.source_map(translation.origins, program.source_root),
        options={"opset": opset},
    )


def _translate(program: CapturedProgram, opset: int) -> _Translation:
    lifted = _lift(program)
    try:
        onnx_program = _export(lifted.exported, opset)
    except _exporter_error() as error:
        return _Translation(_with_border(_explain_failure(error, lifted.exported, program, opset), program), lifted)
    model, translated = onnx_program.model, onnx_program.exported_program
    _check_opset(model, opset)
    origins = source_map.origins(model, translated)
    border.name_axes(model, lifted, program.inputs)
    border.name_border(
        model,
        [*(spec.name for spec in program.inputs), *(str(spec.input) for spec in lifted.carried)],
        [*(spec.name for spec in program.outputs), *(str(spec.output) for spec in lifted.carried)],
    )
    border.strip_metadata(model)
    plan = _judge_kernels(model, translated, origins, program.source_root)
    return _Translation(_with_border(plan, program), lifted, model, origins)


def _lift(program: CapturedProgram) -> LiftedProgram:
    try:
        return lift_state(program)
    except LoweringError:
        raise
    except Exception as error:  # torch raises anything for a graph that it cannot decompose
        raise LoweringError(
            "the program cannot be decomposed into functional operators", why=_first_line(error), fix=_OTHER_TARGET
        ) from error


def _exporter_error() -> type[Exception]:
    import torch

    return torch.onnx.OnnxExporterError


def _export(exported: ExportedProgram, opset: int) -> Any:
    """The optimized `torch.onnx.ONNXProgram`.

    Raises:
        torch.onnx.OnnxExporterError: Something in it cannot be translated.
    """
    import torch

    onnx_program = torch.onnx.export(exported, dynamo=True, opset_version=opset, optimize=False, verbose=False)
    assert onnx_program is not None
    _replace_fake_weights(onnx_program.model)
    onnx_program.optimize()
    return onnx_program


def _replace_fake_weights(model: Any) -> None:
    """Zeros, made only where they are looked at, in place of weights without values: for `plan`."""
    import numpy as np
    import onnx_ir
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    for value in model.graph.initializers.values():
        raw = getattr(value.const_value, "raw", None)
        if isinstance(raw, FakeTensor) or (isinstance(raw, torch.Tensor) and raw.is_meta):
            dtype, shape = value.const_value.dtype, value.const_value.shape

            def zeros(dtype: Any = dtype, shape: Any = shape) -> Any:
                return onnx_ir.Tensor(np.zeros(shape.numpy(), dtype.numpy()), dtype=dtype)

            value.const_value = onnx_ir.LazyTensor(zeros, dtype=dtype, shape=shape, name=value.name)


def _check_opset(model: Any, opset: int) -> None:
    written = model.graph.opset_imports.get("", opset)
    if written != opset:
        raise LoweringError(
            f"the exporter wrote opset {written} where {opset} was asked for",
            why=f"it cannot write this model in the operators of opset {opset}",
            fix=f"--option opset={written}",
        )


def _explain_failure(
    error: Exception, exported: ExportedProgram, program: CapturedProgram, opset: int
) -> PartitionPlan:
    """The plan of a program that the exporter refused: every operator without a translation.

    Raises:
        LoweringError: All operators have one; the exporter failed for another reason.
    """
    try:
        view = view_as_exporter(exported, opset)
    except Exception as again:  # see _lift
        raise LoweringError(
            "the program cannot be decomposed into the operators that ONNX knows",
            why=_first_line(again),
            fix=_OTHER_TARGET,
        ) from error
    left = {node for node, _ in view.untranslatable}
    if not left:
        where, why = _failing_node(error, view.program, program.source_root)
        raise LoweringError("the ONNX exporter failed", where, _OTHER_TARGET, why=why) from error
    fallbacks = [
        Fallback(str(node.target), 1, "not_in_delegate", reason, source_of(node, program.source_root), fatal=True)
        for node, reason in view.untranslatable
    ]
    return _plan(operators(view.program), left, fallbacks)


def _failing_node(error: Exception, translated: ExportedProgram, source_root: Path) -> tuple[str | None, str]:
    """Source line and sentence of the operator whose translation raised; the cause at the end of the chain."""
    where = None
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    nodes = {node.name: node for node in operators(translated)}
    for cause in causes:
        named = re.match(r"Error when translating node %(\w+)", str(cause))
        if named and named[1] in nodes:
            node = nodes[named[1]]
            where = source_of(node, source_root)
            return where, f"{node.target} cannot be translated: {_first_line(causes[-1])}"
    return None, _first_line(causes[-1])


def _judge_kernels(
    model: Any, translated: ExportedProgram, origins: dict[str, Node], source_root: Path
) -> PartitionPlan:
    """The plan of a translated program: its nodes for which ONNX Runtime has no kernel are left."""
    fallbacks: list[Fallback] = []
    left: set[Node] = set()
    for missing in kernels.missing_kernels(model):
        origin = origins.get(missing.node)
        if origin in left:
            continue
        if origin is not None:
            left.add(origin)
        op = str(origin.target) if origin is not None else missing.node
        source = source_of(origin, source_root) if origin is not None else None
        fallbacks.append(Fallback(op, 1, missing.code, missing.reason, source, fatal=True))
    return _plan(operators(translated), left, fallbacks)


def _plan(nodes: Iterable[Node], left: set[Node], fallbacks: Sequence[Fallback]) -> PartitionPlan:
    """A plan in which everything outside `left` is one region; nothing is a region where nothing can be lowered."""
    everything = list(nodes)
    taken = [node for node in everything if node not in left]
    total_flops = sum_flops(everything)
    return PartitionPlan(
        delegated_ops=len(taken),
        total_ops=len(everything),
        delegate_calls=0 if fallbacks or not taken else 1,
        fallbacks=group_fallbacks(fallbacks),
        delegated_flops=None if total_flops is None else sum_flops(taken) or 0,
        total_flops=total_flops,
    )


def _with_border(plan: PartitionPlan, program: CapturedProgram) -> PartitionPlan:
    """Add what cannot cross the border between the caller and ONNX Runtime."""
    refused = [
        Fallback(
            kind,
            1,
            "dtype",
            f"{kind} {spec.name!r} is {spec.dtype}, which ONNX Runtime's CPU provider "
            "cannot take from or give to the caller",
            None,
            fatal=True,
        )
        for kind, specs in (("input", program.inputs), ("output", program.outputs), ("state", program.state))
        for spec in specs
        if spec.dtype in _NO_BORDER
    ]
    if not refused:
        return plan
    return replace(plan, delegate_calls=0, fallbacks=(*refused, *plan.fallbacks))


def _refusal(plan: PartitionPlan) -> LoweringError:
    """One error that names every fatal fallback with its source line."""
    lines = []
    for left in plan.fatal:
        times = f" ({left.count} times)" if left.count > 1 else ""
        lines.append(f"{left.source or 'unknown line'}: {left.op}{times}: {left.reason}")
    sources = [left.source for left in plan.fatal if left.source]
    names = list(dict.fromkeys(left.op for left in plan.fatal))
    return LoweringError(
        f"onnx-cpu cannot run {len(names)} operator{'s' if len(names) > 1 else ''} of the model: {', '.join(names)}",
        sources[0] if sources else None,
        _OTHER_TARGET,
        why="\n".join(lines),
    )


def _write_state(lifted: LiftedProgram, folder: Path) -> None:
    from safetensors.torch import save_file

    # Clones: buffers may share memory or be strided, which safetensors refuses.
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in lifted.initial.items()}
    save_file(tensors, folder / STATE_FILE)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__
