"""Why XNNPACK left a node out: its own words where it said something, the node's dtypes and sizes where it did not.

XNNPACK's configurations log free text. The table below gives each text its code and, where the text is vague, a
sentence with the offending value. For an operator without a configuration nothing is logged: `not_in_delegate`.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgex.delegates.executorch.exir import operator_name
from edgex.delegates.executorch.refusals import SIZES_ARE_CHEAP, Refusal, refuse_unknown
from edgex.delegates.graph.schema import named_arguments
from edgex.delegates.plan import MAKE_STATIC, ReasonCode

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

TAKEN_DTYPES = ("float32", "float16")
VIEWS = ("aten.permute_copy.default", "aten.t_copy.default", "aten.transpose_copy.int", "aten.view_copy.default")


@dataclass(frozen=True)
class Rule:
    """What a logged text means.

    Attributes:
        pattern: Found in the text.
        code: The reason code.
        sentence: Filled with the node's arguments by their names in the operator's schema, with `shape`, `rank` and
            `spatial` of its first tensor, and with `result`, the result's shape; None keeps the text.
        workaround: See `Fallback.workaround`.
        rewrite: See `Fallback.rewrite`.
    """

    pattern: str
    code: ReasonCode
    sentence: str | None = None
    workaround: str | None = None
    rewrite: str | None = None


# By operator, where no rule knows better.
_WORKAROUNDS = {
    "aten.native_layer_norm": "it runs in ExecuTorch's own kernel; --target onednn fuses it",
    "aten.embedding": "a table look-up costs little: nothing to do",
    "aten.amax": "over height and width: F.adaptive_max_pool2d(x, 1).flatten(1)",
}
# Reshaping and slicing by a size that is known only when the model runs.
_SIZED_VIEWS = ("aten.view_copy", "aten.slice_copy")
_STATIC = f"{MAKE_STATIC}, or leave one size to be inferred (-1)"
_AVERAGE = "give the tensor four dimensions and average over (2, 3)"

RULES: tuple[Rule, ...] = (
    Rule("mixed input dtypes", "dtype"),
    Rule("GELU does not support fp16", "dtype", "XNNPACK has no float16 GELU"),
    Rule("dtype conversion", "dtype"),
    Rule("Unsupported (in|out)put dtype", "dtype"),
    Rule("mean.dim does not support dtype", "dtype", "XNNPACK's mean cannot convert: dtype={dtype}"),
    Rule("got tensor of rank", "rank", "XNNPACK averages tensors of 4 dimensions only, not of {rank}", _AVERAGE),
    Rule("Only support 1D \\+ 2D Conv", "rank", "XNNPACK convolves over 1 or 2 dimensions, not over {spatial}"),
    Rule("Unsupported input rank", "rank", "XNNPACK does not take an input of {rank} dimensions here"),
    Rule(
        "Symbolic reshape", "dynamic_shape", "the new shape {size} holds a size known only when the model runs", _STATIC
    ),
    Rule("reshape finds one size", "dynamic_shape"),
    Rule("tensor has invalid shape, dim: 0", "attribute", "XNNPACK takes no empty tensor: input {shape}"),
    Rule("tensor has invalid shape", "dynamic_shape", "XNNPACK slices static shapes only, not {shape}"),
    Rule("dynamic output sizes", "dynamic_shape", "XNNPACK resizes to a static size only, not to {result}"),
    Rule("ceil mode is not supported for dynamic", "dynamic_shape", "ceil_mode=True needs static sizes, not {shape}"),
    Rule("must be statically known", "dynamic_shape"),
    Rule("state as weight", "non_constant_weight"),
    Rule(
        "[wW]eight to be a static param|weight must be a parameter|weight must be static",
        "non_constant_weight",
        "XNNPACK needs a constant weight here; this one is {weight}",
        "make the weight a parameter",
    ),
    Rule(
        "bias to be a static param|bias must be static",
        "non_constant_weight",
        "XNNPACK needs a constant bias here; this one is {bias}",
    ),
    Rule("mean and variance must be static", "non_constant_weight"),
    Rule(
        "alpha != 1",
        "attribute",
        "XNNPACK adds and subtracts with alpha=1 only, not alpha={alpha}",
        "write x + alpha * y as two operations",
        "split_alpha",
    ),
    Rule(
        "power == 2|int powers",
        "attribute",
        "XNNPACK raises to the power 2 only, not {exponent}",
        "write x * x * x for a small whole power",
    ),
    Rule("ceil mode is not supported", "attribute", "XNNPACK's average pooling has no ceil_mode=True"),
    Rule("zero-padding in the averaging", "attribute", "XNNPACK does not average padding={padding} in"),
    Rule("divisor override", "attribute", "XNNPACK has no divisor_override={divisor_override}"),
    Rule("concatenation", "attribute", "XNNPACK concatenates 2 tensors or more"),
    Rule(
        "dim must be the last dim",
        "attribute",
        "XNNPACK's softmax runs over the last dimension only, not dim={dim}",
        "move the dimension to the end first: x.transpose(d, -1)",
    ),
    Rule(
        "across the innermost dimensions",
        "attribute",
        "XNNPACK averages over dimensions 2 and 3 only, not {dim}",
        _AVERAGE,
    ),
    Rule(
        "keepdim=True",
        "attribute",
        "XNNPACK averages with keepdim=True only",
        "average with keepdim=True, then flatten(1)",
    ),
    Rule("trailing dimension", "attribute", "XNNPACK adds a dimension at the end only, not at dim={dim}"),
    Rule("single inferred dimension", "attribute", "XNNPACK infers one dimension of a shape at most, not {size}"),
    Rule("negative padding", "attribute", "XNNPACK does not crop: pad={pad}"),
    Rule("dim-order preserving", "attribute", "XNNPACK does not change the memory format: dim_order={dim_order}"),
    Rule("stride .* must be less", "attribute"),
    Rule("has invalid dims|BatchNorm cannot be decomposed", "attribute"),
    Rule("Unsupported user of max.dim", "attribute", "XNNPACK's max over a dimension gives no indices"),
)


def explain_refusal(
    node: Node, logged: str | None, known_targets: Collection[str], program: ExportedProgram
) -> Refusal:
    """Why XNNPACK did not take a node.

    Args:
        node: A node of the edge graph that is in no partition.
        logged: What XNNPACK logged about it, if anything.
        known_targets: Operators that XNNPACK has a configuration for, as `add.Tensor`.
        program: The edge program, to tell constants from values.
    """
    op = operator_name(node)
    refusal = _explain(node, op, logged, known_targets, program)
    if refusal.workaround is not None:
        return refusal
    packet = op.rpartition(".")[0]
    by_size = refusal.code == "dynamic_shape" and packet in _SIZED_VIEWS
    return dataclasses.replace(refusal, workaround=_STATIC if by_size else _WORKAROUNDS.get(packet))


def _explain(
    node: Node, op: str, logged: str | None, known_targets: Collection[str], program: ExportedProgram
) -> Refusal:
    if op.partition(".")[2] not in known_targets:
        reason = f"XNNPACK has no operator {op}"
        if _has_tensor(node):
            return refuse_unknown(op, reason)
        reason += ": the runtime itself computes and checks sizes"
        return Refusal("not_in_delegate", reason, workaround=SIZES_ARE_CHEAP)
    if logged is not None and logged != "invalid dtype":
        return _from_text(node, logged, program)
    return _from_values(node, program) or _unsaid(node, op)


def _from_text(node: Node, text: str, program: ExportedProgram) -> Refusal:
    rule = next((rule for rule in RULES if re.search(rule.pattern, text)), None)
    if rule is None or rule.sentence is None:
        return Refusal("attribute" if rule is None else rule.code, f"XNNPACK: {text}")
    sentence = rule.sentence.format_map(_words(node, program))
    return Refusal(rule.code, sentence, workaround=rule.workaround, rewrite=rule.rewrite)


def _from_values(node: Node, program: ExportedProgram) -> Refusal | None:
    """What "invalid dtype" stands for: a size as argument, an empty tensor, two dtypes, or one that is not taken."""
    import torch

    dtypes = []
    for argument in node.all_input_nodes:
        value = argument.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return Refusal("dynamic_shape", f"its argument {argument.name} is a size known only when the model runs")
        if not isinstance(value, torch.Tensor):
            continue
        origin = _origin(argument, program)
        if any(isinstance(size, int) and size == 0 for size in value.shape):
            return Refusal("attribute", f"XNNPACK takes no empty tensor; {origin} is {_show(value)}")
        dtypes.append((origin, _dtype_name(value)))
    output = node.meta.get("val")
    for value in output if isinstance(output, (list, tuple)) else (output,):
        if isinstance(value, torch.Tensor):
            dtypes.append(("the result", _dtype_name(value)))
    for name, dtype in dtypes:
        if dtype not in TAKEN_DTYPES:
            return Refusal("dtype", f"XNNPACK takes {' and '.join(TAKEN_DTYPES)} here; {name} is {dtype}")
    if len({dtype for _, dtype in dtypes}) > 1:
        mixed = ", ".join(f"{name} is {dtype}" for name, dtype in dtypes)
        return Refusal("dtype", f"XNNPACK takes one dtype at a time; {mixed}")
    return None


def _unsaid(node: Node, op: str) -> Refusal:
    """XNNPACK has the operator, its dtypes fit, and it gave no reason."""
    step = named_arguments(node).get("step", 1)
    if step != 1:
        return Refusal("attribute", f"XNNPACK slices with step 1 only, not {step}")
    shape = _first_shape(node)
    if any(not isinstance(size, int) for size in shape):
        return Refusal("dynamic_shape", f"XNNPACK did not take the dynamic shape {_show(shape)}")
    return Refusal("attribute", f"XNNPACK has {op} and gave no reason for leaving this one out")


def _words(node: Node, program: ExportedProgram) -> dict[str, str]:
    """What a rule's sentence may name; a word that the node does not have reads `?`."""
    from torch.fx import Node

    arguments = named_arguments(node)
    shape = _first_shape(node)
    words = defaultdict(lambda: "?", {name: _show(value) for name, value in arguments.items()})
    # The second matrix of a product is its weight, the first argument of addmm its bias.
    for word, value in (("weight", arguments.get("mat2")), ("bias", arguments.get("self")), *arguments.items()):
        if isinstance(value, Node):
            words[word] = _origin(value, program)
    words |= {"shape": _show(shape), "rank": str(len(shape)), "spatial": str(len(shape) - 2)}
    return words | {"result": _show(node.meta.get("val"))}


def _origin(value: Node, program: ExportedProgram) -> str:
    """Words for where a value comes from; views and transposes of it are the same value."""
    signature = program.graph_signature
    source = value
    while source.op == "call_function" and operator_name(source) in VIEWS:
        source = source.all_input_nodes[0]
    if source.op != "placeholder":
        return f"the result of {operator_name(value)}"
    name = source.name
    if name in signature.inputs_to_parameters:
        return f"the parameter {signature.inputs_to_parameters[name]}"
    buffer = signature.inputs_to_buffers.get(name)
    if buffer in signature.buffers_to_mutate.values():
        return f"the buffer {buffer}, which the model changes"
    # Lifted constants are tensors that the model's code makes, numbers among them.
    if name in signature.inputs_to_lifted_tensor_constants or (buffer or "").startswith("_lifted_tensor_constant"):
        return "a constant"
    return f"the input {name}" if buffer is None else f"the buffer {buffer}"


def _has_tensor(node: Node) -> bool:
    """Whether the result is a tensor or several; not a size, not nothing."""
    import torch

    value = node.meta.get("val")
    return isinstance(value, (torch.Tensor, list, tuple))


def _first_shape(node: Node) -> tuple[Any, ...]:
    import torch

    for argument in node.all_input_nodes:
        value = argument.meta.get("val")
        if isinstance(value, torch.Tensor):
            return tuple(value.shape)
    return ()


def _show(value: Any) -> str:
    import torch
    from torch.fx import Node

    if isinstance(value, Node):
        return value.name
    if isinstance(value, torch.Tensor):
        return _show(tuple(value.shape))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_show(item) for item in value)}]"
    return str(value)


def _dtype_name(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.")
