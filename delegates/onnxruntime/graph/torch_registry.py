"""Why torch's ONNX exporter refused a program. The only module that touches `torch.onnx._internal`.

`torch.onnx.export` stops at the first operator without a translation; the user is to see all of them at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from edgex.delegates.onnxruntime.graph.walk import operators
from edgex.runtime.support.dependency_messages import quiet_dependencies

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

# Translations are written for opset 18 and up; older opsets are converted down from 18.
_OLDEST_TRANSLATIONS = 18


@dataclass(frozen=True)
class Diagnosis:
    """Why a program was refused.

    Attributes:
        program: The program, decomposed to what the exporter knows; this is what it translates.
        untranslatable: Operators without a translation, in program order, each with the exporter's reason.
        failing: The operator whose translation raised, where there is one.
        cause: What was raised first, one line.
    """

    program: ExportedProgram
    untranslatable: tuple[tuple[Node, str], ...]
    failing: Node | None
    cause: str


def diagnose(error: Exception, program: ExportedProgram, opset: int, translated: Container[Any] = ()) -> Diagnosis:
    """Decompose a program as `torch.onnx.export` does, and look up every operator.

    Args:
        error: What `torch.onnx.export` raised.
        program: The program that it was given; not changed.
        opset: The opset that was to be written.
        translated: Operators for which `torch.onnx.export` was given translations of our own.
    """
    from torch.onnx._internal.exporter._core import _is_onnx_op, _prepare_exported_program_for_export
    from torch.onnx._internal.exporter._dispatching import dispatch
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    registry = ONNXRegistry.from_torchlib(opset_version=max(opset, _OLDEST_TRANSLATIONS))
    decomposed = _prepare_exported_program_for_export(program, registry=registry)
    untranslatable = []
    for node in operators(decomposed):
        if _is_onnx_op(node.target) or node.target in translated:
            continue
        function, reason = dispatch(node, registry)
        if function is None:
            untranslatable.append((node, _in_our_words(reason)))
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    return Diagnosis(decomposed, tuple(untranslatable), _failing_node(causes, decomposed), first_line(causes[-1]))


def load_registry(opset: int) -> None:
    """Import the exporter with its translations, which takes seconds the first time."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    with quiet_dependencies(everything=True), translations_kept():
        ONNXRegistry.from_torchlib(opset_version=max(opset, _OLDEST_TRANSLATIONS))


@contextmanager
def translations_kept() -> Iterator[None]:
    """Within it, the exporter makes its table of translations once in a process, and again when operators came.

    It would make it at every export, from the sources and the signatures of hundreds of functions. Which of them name
    an operator that exists depends on what is registered: the user's model may bring operators.
    """
    import torch
    from torch.onnx._internal import _lazy_import
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    registry: Any = ONNXRegistry
    apis: Any = vars(_lazy_import)["onnxscript_apis"]
    inherited, make, read = vars(registry)["from_torchlib"], registry.from_torchlib, apis.get_torchlib_ops

    def copy_table(opset_version: int) -> Any:
        kept = _make_table(make, opset_version, len(torch._C._dispatch_get_all_op_names()))
        copied = ONNXRegistry()
        copied._opset_version = opset_version
        # An export adds to them.
        copied.functions = {target: list(translations) for target, translations in kept.functions.items()}
        return copied

    registry.from_torchlib = staticmethod(copy_table)
    apis.get_torchlib_ops = lambda: _read_once(read)
    try:
        yield
    finally:
        registry.from_torchlib = inherited
        apis.get_torchlib_ops = read


@lru_cache(maxsize=2)
def _make_table(make: Callable[..., Any], opset_version: int, _operators: int) -> Any:
    """The table for an opset, while there are this many operators."""
    return make(opset_version=opset_version)


@cache
def _read_once(read: Callable[[], Any]) -> tuple[Any, ...]:
    return tuple(read())


def own_decomposition(node: Node) -> Any | None:
    """PyTorch's decomposition of the node's operator into simpler ones, or None where it has none."""
    import torch

    table = torch.export.default_decompositions()
    # Not `get`: the table makes its entries for composite operators when they are asked for with `in` or `[]`.
    return table[node.target] if node.target in table else None  # noqa: SIM401


def first_line(error: BaseException) -> str:
    """`ValueError: the first line of its message`."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


def _in_our_words(reason: str) -> str:
    if "complex" in reason:
        return "PyTorch's ONNX exporter has no translation for it with complex inputs"
    return "PyTorch's ONNX exporter has no translation for it"


def _failing_node(causes: list[BaseException], program: ExportedProgram) -> Node | None:
    """The node that an error of the chain names: `Error when translating node %mul_3 : …`."""
    nodes = {node.name: node for node in operators(program)}
    for cause in causes:
        named = re.match(r"Error when translating node %(\w+)", str(cause))
        if named and named[1] in nodes:
            return nodes[named[1]]
    return None
