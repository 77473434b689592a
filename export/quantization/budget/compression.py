"""What quantizing did to a program: bytes by layer and dtype, activations that are clipped, channels that went dead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from edgex.delegates.base import CapturedProgram
from edgex.delegates.graph.provenance import is_conversion, module_path_of, source_of
from edgex.export.quantization.running import GraphRunner
from edgex.export.rewrites.editing.editor import constant_tensors

if TYPE_CHECKING:
    from edgex.export.quantization.quantized import Quantized

# Below this share of clipped values an activation is not worth a line.
_WORTH_TELLING = 1e-3
_FLOAT_BYTES = 4


@dataclass
class _Seen:
    """What one quantize operator was given."""

    values: int = 0
    clipped: int = 0
    low: torch.Tensor | None = None
    high: torch.Tensor | None = None


def describe_compression(quantized: Quantized, samples: Sequence[Sequence[torch.Tensor]]) -> dict[str, Any]:
    """The report of a quantized program.

    Args:
        quantized: What the target lowers.
        samples: Inputs to see activations with; the example at least.

    Returns:
        `layers`: module, dtype, number of weights, bytes, bytes in float32. `by_dtype`: bytes. `unquantized`: what
        stayed in floating point and why. `saturation`: activations of which a part lies outside of the range, with
        that share. `dead_channels`: weights whose channels are all zero, and activations whose channels never change.
    """
    program = quantized.program
    layers = _list_layers(program)
    by_dtype: dict[str, int] = {}
    for layer in layers:
        by_dtype[layer["dtype"]] = by_dtype.get(layer["dtype"], 0) + layer["bytes"]
    seen = _watch(program, samples)
    return {
        "weights_bytes": sum(by_dtype.values()),
        "float_weights_bytes": sum(layer["float_bytes"] for layer in layers),
        "by_dtype": dict(sorted(by_dtype.items())),
        "layers": layers,
        "unquantized": [operator.to_json() for operator in quantized.unquantized],
        "samples": len(samples),
        "saturation": _saturation(program, seen),
        "dead_channels": [*_dead_weights(program), *_dead_activations(program, seen)],
    }


def _list_layers(program: CapturedProgram) -> list[dict[str, Any]]:
    """Constants by the module that uses them, in program order; scales and zero points count with their weights."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    bits = 8 if program.recipe is None else program.recipe.weight_bits
    for node, tensor in constant_tensors(program).items():
        users = list(node.users)
        if not users:
            continue
        weight = tensor.dtype == torch.int8 and any(u.args and u.args[0] is node for u in users if _converts(u))
        parameter = any(_converts(user) for user in users) and not weight
        dtype = f"int{bits}" if weight else str(tensor.dtype).removeprefix("torch.")
        module = module_path_of(_consumer(users[0])) or ""
        size = tensor.numel() * bits // 8 if weight else tensor.numel() * tensor.element_size()
        entry = found.setdefault(
            (module, dtype), {"module": module, "dtype": dtype, "weights": 0, "bytes": 0, "float_bytes": 0}
        )
        entry["weights"] += 0 if parameter else tensor.numel()
        entry["bytes"] += size
        entry["float_bytes"] += 0 if parameter else tensor.numel() * _FLOAT_BYTES
    return list(found.values())


def _consumer(node: Node) -> Node:
    """The operator that computes with a value: behind the conversions."""
    while _converts(node) and node.users:
        node = next(iter(node.users))
    return node


class _Watcher(Interpreter):
    """Runs a graph and looks at what quantize operators of activations get."""

    def __init__(self, module: GraphModule, seen: dict[str, _Seen]) -> None:
        super().__init__(module)
        self.seen = seen

    def run_node(self, n: Node) -> Any:
        if _quantizes(n):
            values, scale, zero_point, low, high = self.fetch_args_kwargs_from_env(n)[0][:5]
            if isinstance(values, torch.Tensor) and isinstance(scale, float):
                _look(self.seen.setdefault(n.name, _Seen()), values, scale, zero_point, low, high)
        return super().run_node(n)


def _look(seen: _Seen, values: torch.Tensor, scale: float, zero_point: int, low: int, high: int) -> None:
    least, most = (low - 0.5 - zero_point) * scale, (high + 0.5 - zero_point) * scale
    finite = values[torch.isfinite(values)]
    seen.values += finite.numel()
    seen.clipped += int(((finite < least) | (finite > most)).sum())
    if values.dim() == 4 and values.shape[1] > 1 and values.numel():
        steps = torch.round(values / scale)
        lowest, highest = steps.amin((0, 2, 3)), steps.amax((0, 2, 3))
        seen.low = lowest if seen.low is None else torch.minimum(seen.low, lowest)
        seen.high = highest if seen.high is None else torch.maximum(seen.high, highest)


def _watch(program: CapturedProgram, samples: Sequence[Sequence[torch.Tensor]]) -> Mapping[str, _Seen]:
    seen: dict[str, _Seen] = {}
    # Ranges that every run chooses cannot be left, and a run brings every weight to float32 once more.
    if not any(_quantizes(node) and isinstance(node.args[1], float) for node in program.exported.graph.nodes):
        return seen
    runner = GraphRunner(program, interpreter=lambda module: _Watcher(module, seen))
    for sample in samples:
        runner.reset()
        runner.run(sample)
    return seen


def _saturation(program: CapturedProgram, seen: Mapping[str, _Seen]) -> list[dict[str, Any]]:
    entries = []
    for node in program.exported.graph.nodes:
        look = seen.get(node.name)
        if look is None or not look.values or look.clipped / look.values < _WORTH_TELLING:
            continue
        source = node.args[0]
        entries.append(
            {
                "module": module_path_of(source) or module_path_of(_consumer(node)),
                "op": str(source.target) if source.op == "call_function" else "input",
                "source": source_of(source, program.source_root),
                "clipped_share": float(f"{look.clipped / look.values:.3g}"),
            }
        )
    return sorted(entries, key=lambda entry: -entry["clipped_share"])


def _dead_weights(program: CapturedProgram) -> list[dict[str, Any]]:
    """Channels of which every weight became zero."""
    entries = []
    for node, tensor in constant_tensors(program).items():
        readers = [user for user in node.users if _converts(user) and user.args[0] is node]
        if tensor.dtype != torch.int8 or not readers or tensor.dim() < 2:
            continue
        dead = int((tensor.flatten(1) == 0).all(1).sum())
        if dead:
            module = module_path_of(_consumer(readers[0]))
            entries.append({"module": module, "kind": "weight", "dead": dead, "channels": tensor.shape[0]})
    return entries


def _dead_activations(program: CapturedProgram, seen: Mapping[str, _Seen]) -> list[dict[str, Any]]:
    """Channels of images that have one value everywhere, in all samples."""
    entries = []
    for node in program.exported.graph.nodes:
        look = seen.get(node.name)
        if look is None or look.low is None or look.high is None:
            continue
        dead = int((look.low == look.high).sum())
        if dead and dead < look.low.numel():
            module = module_path_of(node.args[0])
            entries.append({"module": module, "kind": "activation", "dead": dead, "channels": look.low.numel()})
    return entries


def _converts(node: Node) -> bool:
    return node.op == "call_function" and is_conversion(str(node.target))


def _quantizes(node: Node) -> bool:
    return _converts(node) and ".quantize_per_tensor.default" in str(node.target)
