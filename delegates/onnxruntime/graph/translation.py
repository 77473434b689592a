"""From an exported program to an optimized ONNX graph, or to the list of what cannot be translated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.decomposition import spare_decompositions
from edgex.delegates.graph.retracing import dense_attention, retry_stale_symbols
from edgex.delegates.onnxruntime.forms.group_query import attention_translation
from edgex.delegates.onnxruntime.graph.inlining import inline_functions
from edgex.delegates.onnxruntime.graph.lost_initializers import register_lost_initializers
from edgex.delegates.onnxruntime.graph.reshapes import keep_reshapes
from edgex.delegates.onnxruntime.graph.small_scalars import keep_small_scalars
from edgex.delegates.onnxruntime.graph.torch_registry import (
    Diagnosis,
    diagnose,
    first_line,
    own_decomposition,
    translations_kept,
)
from edgex.delegates.onnxruntime.kernels import MissingKernel
from edgex.delegates.other_targets import name_other_targets
from edgex.errors import LoweringError

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

# Targets that may take PyTorch's own operators where ONNX does not.
OTHERS = "xnnpack,reference"
OTHER_TARGET = name_other_targets((), OTHERS)


@dataclass(frozen=True)
class Translated:
    """An ONNX graph.

    Attributes:
        model: An `onnx_ir.Model` with torch's names and metadata.
        program: The decomposed program that became it.
    """

    model: Any
    program: ExportedProgram


@dataclass(frozen=True)
class Refused:
    """What the exporter cannot translate.

    Attributes:
        program: The decomposed program.
        left: Its operators that are in the way, each with the reason.
    """

    program: ExportedProgram
    left: tuple[tuple[Node, MissingKernel], ...]


def translate(exported: ExportedProgram, opset: int, *, planning: bool = False) -> Translated | Refused:
    """Translate a program without mutated buffers; it is not changed, its weights are shared.

    Args:
        exported: The program.
        opset: Of the graph that is written.
        planning: Only the operators' names and forms are wanted, which cost less; see `spare_decompositions`.

    Raises:
        LoweringError: The program cannot be decomposed, the exporter fails at no operator in particular, it
            writes another opset, or the program still mutates a buffer.
    """
    import torch

    taken_apart: set[Any] = set()
    is_dense = False
    while True:
        try:
            return _export(spare_decompositions(exported, by_kind=True) if planning else exported, opset)
        except torch.onnx.OnnxExporterError as error:
            if not is_dense and _is_of_strides(error):
                exported, is_dense = dense_attention(exported), True
                continue
            found = _diagnose(error, exported, opset)
            # Some translations do not take every form of their operator (attention of rank 3, say). PyTorch's own
            # decomposition of it may do; each operator is tried once.
            retry = None if found.untranslatable or found.failing is None else own_decomposition(found.failing)
            if found.failing is None or retry is None or found.failing.target in taken_apart:
                return _refused(found, error)
            taken_apart.add(found.failing.target)
            exported = _decompose(exported, {found.failing.target: retry})


def _is_of_strides(error: BaseException) -> bool:
    """Whether a `view` failed, at strides that an earlier pass did not have."""
    cause: BaseException | None = error
    while cause is not None and not (isinstance(cause, ValueError) and "Cannot view a tensor" in str(cause)):
        cause = cause.__cause__
    return cause is not None


@contextmanager
def decomposition_errors(into: str) -> Iterator[None]:
    """Turn what torch raises for a graph that it cannot decompose, which may be anything, into a LoweringError."""
    try:
        yield
    except LoweringError:
        raise
    except Exception as error:
        raise LoweringError(
            f"the program cannot be decomposed into {into}", why=first_line(error), fix=OTHER_TARGET
        ) from error


def _decompose(exported: ExportedProgram, table: Mapping[Any, Any]) -> ExportedProgram:
    with decomposition_errors("simpler operators"):
        decomposed: ExportedProgram = retry_stale_symbols(lambda: exported.run_decompositions(dict(table)))
    return decomposed


def _diagnose(error: Exception, exported: ExportedProgram, opset: int) -> Diagnosis:
    with decomposition_errors("operators that ONNX knows"):
        return retry_stale_symbols(lambda: diagnose(error, exported, opset, attention_translation()))


def _export(exported: ExportedProgram, opset: int) -> Translated:
    import torch

    with translations_kept():
        onnx_program = retry_stale_symbols(
            lambda: torch.onnx.export(
                exported,
                dynamo=True,
                opset_version=opset,
                optimize=False,
                verbose=False,
                custom_translation_table=attention_translation(),
            )
        )
    assert onnx_program is not None
    assert onnx_program.exported_program is not None
    _replace_fake_weights(onnx_program.model)
    keep_small_scalars(onnx_program.model)
    inline_functions(onnx_program.model)
    keep_reshapes(onnx_program.model)
    onnx_program.optimize()
    register_lost_initializers(onnx_program.model)
    written = onnx_program.model.graph.opset_imports.get("", opset)
    if written != opset:
        raise LoweringError(
            f"the exporter wrote opset {written} where {opset} was asked for",
            why=f"it cannot write this model in the operators of opset {opset}",
            fix=f"--option opset={written}",
        )
    lost = sorted(onnx_program.exported_program.graph_signature.buffers_to_mutate.values())
    if lost:
        raise LoweringError(
            f"the model writes to {', '.join(lost)}, which its capture does not list as state",
            why="ONNX has no memory: the model would be right once and wrong afterwards",
            fix="report this as a defect of edgex",
        )
    return Translated(onnx_program.model, onnx_program.exported_program)


def _replace_fake_weights(model: Any) -> None:
    """Zeros, made only where they are looked at, in place of weights without values: for `plan`."""
    import numpy as np
    import onnx_ir
    import torch

    from edgex.delegates.graph.torch_internals import FakeTensor

    for value in model.graph.initializers.values():
        raw = getattr(value.const_value, "raw", None)
        if isinstance(raw, FakeTensor) or (isinstance(raw, torch.Tensor) and raw.is_meta):
            dtype, shape = value.const_value.dtype, value.const_value.shape

            def zeros(dtype: Any = dtype, shape: Any = shape) -> Any:
                return onnx_ir.Tensor(np.zeros(shape.numpy(), dtype.numpy()), dtype=dtype)

            value.const_value = onnx_ir.LazyTensor(zeros, dtype=dtype, shape=shape, name=value.name)


def _refused(found: Diagnosis, error: Exception) -> Refused:
    """Every operator without a translation; where all have one, the operator at which the exporter failed."""
    left = [(node, MissingKernel(node.name, "not_in_delegate", reason)) for node, reason in found.untranslatable]
    if not left and found.failing is not None:
        reason = f"its translation to ONNX does not take it as it is used: {found.cause}"
        # The exporter's own words: another set of operators may have what it misses.
        workaround = "choose another with --option opset=…" if "opset" in found.cause else None
        missing = MissingKernel(found.failing.name, "attribute", reason, workaround=workaround)
        left = [(found.failing, missing)]
    if not left:
        raise LoweringError("the ONNX exporter failed", fix=OTHER_TARGET, why=found.cause) from error
    return Refused(found.program, tuple(left))
