"""The one place that imports litert_torch: its decompositions, its table of lowerings, and the way to `.tflite` bytes.

`litert_torch.convert` captures a module by itself, and what it captures has other names and lines than what edgex
captured and proves. So its parts are called on the captured program; an upgrade may move them, and
`tests/delegates/litert` then says which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from edgex.delegates.graph.provenance import is_operator, source_of
from edgex.delegates.graph.retracing import retry_stale_symbols
from edgex.delegates.litert.quantized import unfold_weights
from edgex.delegates.whole_programs import first_sentence
from edgex.errors import LoweringError
from edgex.runtime.support.dependency_messages import quiet_dependencies
from edgex.runtime.support.native_stderr import capture_native_stderr

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

SIGNATURE = "serving_default"
_CUSTOM = 32  # BuiltinOperator.CUSTOM of the schema: an operator that the runtime finds by its name
_FAILURE = re.compile(r"(?P<file>[^\s:]+\.py):(?P<line>\d+):\d+: error: (?P<reason>[^\n%]+?)(?=: %|\n|$)")


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing that litert_torch, and what it imports, says of its progress reaches the terminal."""
    with quiet_dependencies(everything=True), capture_native_stderr():
        import litert_torch

        shown = litert_torch.config.show_progress
        litert_torch.config.show_progress = False
        try:
            yield
        finally:
            litert_torch.config.show_progress = shown


def decompose(exported: ExportedProgram, *, quantized: bool) -> ExportedProgram:
    """The program in the operators that litert_torch lowers one by one; weights may be fake, the argument stays.

    ```
    before:  hardtanh = aten.hardtanh(x, 0.0, 6.0)
    after:   clamp    = aten.clamp(x, 0.0, 6.0)
    ```

    Args:
        exported: A functional program.
        quantized: It holds quantize and dequantize operators of PT2E.
    """
    from litert_torch import fx_infra
    from litert_torch._convert import core

    # A copy first: the next function edits the graph that it is given.
    program = retry_stale_symbols(lambda: exported.run_decompositions({}))
    if quantized:
        program = unfold_weights(program)
    first = {**fx_infra.decomp.pre_convert_decomp(), **(_gathers() if quantized else {})}
    program = fx_infra.safe_run_decompositions(program, first, can_skip=False)
    program = core._run_convert_passes(program)
    table = {**fx_infra.decomp.pre_lower_decomp(), **_selections()}
    lowered: ExportedProgram = fx_infra.safe_run_decompositions(program, table, can_skip=False)
    return lowered


def _gathers() -> dict[Any, Any]:
    """Embeddings as gathers: LiteRT's own operator takes no table of bytes whose zero is another than 0."""
    import torch

    def gather(table: Any, indices: Any, *_options: Any) -> Any:
        return torch.index_select(table, 0, indices.reshape(-1)).reshape(*indices.shape, table.shape[1])

    return {torch.ops.aten.embedding.default: gather}


def _selections() -> dict[Any, Any]:
    """Top-k as LiteRT's own operator: by itself litert_torch writes a sort, which the runtime has no kernel for."""
    import torch
    from litert_torch.backend.experimental import torch_tfl

    operator = torch.ops.aten.topk.default
    largest_k = torch_tfl.decomps[operator]

    def select(values: Any, k: int, dim: int = -1, largest: bool = True, _sorted: bool = True) -> Any:
        if largest:
            return largest_k(values, k, dim)
        found, places = largest_k(-values, k, dim)
        return -found, places

    return {operator: select}


def find_unknown(decomposed: ExportedProgram) -> list[Node]:
    """The operators that litert_torch has no lowering for."""
    from litert_torch.backend import lowerings

    return [node for node in decomposed.graph.nodes if is_operator(node) and lowerings.lookup(node.target) is None]


def convert(
    programs: Mapping[str, tuple[ExportedProgram, Sequence[str]]], *, quantized: bool, source_root: Path
) -> bytes:
    """The `.tflite` file; integers of 64 bits stay what they are.

    Args:
        programs: By signature: what `decompose` gave, with its weights, and the names of its inputs in order.
        quantized: It holds quantize and dequantize operators of PT2E.
        source_root: Folder of the user's file, for the line in errors.

    Raises:
        LoweringError: The converter fails, or writes operators that LiteRT has no kernel for.
    """
    from litert_torch._convert import litert_converter

    signatures: list[Any] = []
    for name, (decomposed, inputs) in programs.items():
        signatures.append(SimpleNamespace(name=name, flat_arg_names=list(inputs)))
        if decomposed.example_inputs is None:
            # A program whose state was lifted has none; they are looked at for their place, not for their values.
            users = set(decomposed.graph_signature.user_inputs)
            placeholders = decomposed.graph.find_nodes(op="placeholder")
            decomposed.example_inputs = (tuple(node.meta["val"] for node in placeholders if node.name in users), {})
    graphs = [decomposed for decomposed, _ in programs.values()]
    with capture_native_stderr():
        try:
            model = litert_converter.exported_programs_to_flatbuffer(
                graphs, signatures, quant_config=_quantization() if quantized else None, enable_x64=True
            )
            content: bytes = model.to_bytes()
        except Exception as error:  # MLIR's and torch's own, of no common kind
            raise _refusal(str(error), graphs, source_root) from error
    custom = list_custom_operators(content)
    if custom:
        raise LoweringError(
            f"litert-torch writes operators that LiteRT has no kernel for: {', '.join(custom)}",
            fix="export to another target: -t xnnpack reads most of the same models",
        )
    return content


def list_custom_operators(content: bytes) -> list[str]:
    """Names of the operators in a `.tflite` file that are none of LiteRT's own."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.Model.GetRootAs(content)
    codes = [model.OperatorCodes(index) for index in range(model.OperatorCodesLength())]
    return [code.CustomCode().decode("utf-8", "replace") for code in codes if code.BuiltinCode() == _CUSTOM]


def _quantization() -> Any:
    """Says that scales stand in the graph; the operators that it would choose are not asked for.

    It says `dynamic`, because of a static one the converter makes a file whose inputs and outputs are bytes. What has
    scales for its activations computes in bytes either way.
    """
    from litert_torch.quantize.pt2e_quantizer import PT2EQuantizer, get_symmetric_quantization_config
    from litert_torch.quantize.quant_config import QuantConfig

    config = get_symmetric_quantization_config(is_per_channel=True, is_dynamic=True)
    return QuantConfig(PT2EQuantizer().set_global(config))


def _refusal(message: str, graphs: Sequence[ExportedProgram], source_root: Path) -> LoweringError:
    """The error for what the converter says, with the operators that it means and the user's line.

    It names the innermost line, which is torch's own more often than not: `torch/nn/modules/conv.py:1198:0: error: …`.
    What was captured there is known with the lines around it.
    """
    places = list(_FAILURE.finditer(message))
    frames = tuple(f'File "{place["file"]}", line {place["line"]},' for place in places)
    reason = places[0]["reason"] if places else first_sentence(message)
    there = [
        node
        for decomposed in graphs
        for node in decomposed.graph.nodes
        if is_operator(node) and _innermost(node).startswith(frames or "?")
    ]
    # Of all that one line became, what the reason speaks of: `mhlo.convolution`.
    named = [node for node in there if str(node.target).split(".")[1] in reason] or there
    lines = [f"{source_of(node, source_root)}: {node.target}" for node in named]
    names = ", ".join(dict.fromkeys(str(node.target) for node in named))
    return LoweringError(
        f"litert-torch fails to convert {names or 'this model'}",
        next((source for node in named if (source := source_of(node, source_root))), None),
        "export to another target: -t xnnpack reads most of the same models",
        why="\n".join(dict.fromkeys([*lines, reason])),
    )


def _innermost(node: Node) -> str:
    """The innermost frame of the trace that a node was captured with."""
    trace = str(node.meta.get("stack_trace") or "")
    return trace[max(trace.rfind('File "'), 0) :]
