"""What the tests of the target onednn share: capture, lower, run, compare; skipped where the target is unavailable."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from edgex.delegates.base import CapturedProgram, LoweredModule
from edgex.delegates.onednn.delegate import EMULATION_ISA, OneDnnDelegate, OneDnnOptions
from edgex.delegates.onednn.plan.format import checksum
from edgex.delegates.recipes.tolerances import DEFAULT_TOLERANCES
from edgex.export.capture.program import capture as capture_module
from edgex.export.rewrites.precision import convert_precision
from edgex.runtime.engines.executorch.engine import ExecuTorchRunner
from edgex.runtime.engines.isa import missing_isa
from edgex.runtime.engines.plugins import load_plugins
from edgex.runtime.engines.torch.quantized_operators import register_quantized_operators

AVAILABILITY = OneDnnDelegate().availability()
needs_onednn = pytest.mark.skipif(not AVAILABILITY.available, reason=f"onednn: {AVAILABILITY.reason}")
# Below AVX-512 oneDNN has no bfloat16 at all, not even emulated.
HAS_BF16 = not missing_isa(EMULATION_ISA)
HAS_AVX512 = not missing_isa(("avx512f",))
HERE = Path(__file__).parent


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def seeded(layer: nn.Module) -> nn.Module:
    """The layer, with the numbers of `random` in place of its own."""
    with torch.no_grad():
        for seed, parameter in enumerate(layer.parameters()):
            parameter.copy_(random(*parameter.shape, seed=seed))
    return layer


class Network(nn.Module):
    """A function of the inputs and some layers, as a module."""

    def __init__(self, function: Callable[..., Any], *layers: nn.Module) -> None:
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs, *self.layers)


STEP, ZERO = 0.02, 7


def to_int8(x: torch.Tensor, zero: int = ZERO) -> torch.Tensor:
    """What PT2E writes: int8, a step and a zero point."""
    found: torch.Tensor = torch.ops.quantized_decomposed.quantize_per_tensor(x, STEP, zero, -128, 127, torch.int8)
    return found


def to_float(x: torch.Tensor, zero: int = ZERO) -> torch.Tensor:
    found: torch.Tensor = torch.ops.quantized_decomposed.dequantize_per_tensor(x, STEP, zero, -128, 127, torch.int8)
    return found


def rounded(x: torch.Tensor, zero: int = ZERO) -> torch.Tensor:
    return to_float(to_int8(x, zero), zero)


class Int8Linear(nn.Module):
    """A linear layer whose weights are integers with a scale for each output; of 7 bits, right on every processor."""

    def __init__(self, inputs: int, outputs: int, zero_point: int = 0) -> None:
        super().__init__()
        register_quantized_operators({"recipe": "int8"})
        generator = torch.Generator().manual_seed(3)
        self.register_buffer("weight", torch.randint(-63, 64, (outputs, inputs), generator=generator).to(torch.int8))
        self.register_buffer("scales", torch.rand(outputs, generator=generator) / 200 + 2e-3)
        self.register_buffer("zeros", torch.full((outputs,), zero_point))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = torch.ops.quantized_decomposed.dequantize_per_channel(
            self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8
        )
        return F.linear(x, weight)


class Int8Conv(nn.Module):
    """A depthwise convolution of 3 x 3 of such weights, or one of all channels at each place."""

    def __init__(self, channels: int, *, pointwise: bool = False) -> None:
        super().__init__()
        register_quantized_operators({"recipe": "int8"})
        generator = torch.Generator().manual_seed(4)
        shape = (channels, channels, 1, 1) if pointwise else (channels, 1, 3, 3)
        self.register_buffer("weight", torch.randint(-63, 64, shape, generator=generator).to(torch.int8))
        self.register_buffer("scales", torch.rand(channels, generator=generator) / 200 + 2e-3)
        self.register_buffer("zeros", torch.zeros(channels, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = torch.ops.quantized_decomposed.dequantize_per_channel(
            self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8
        )
        depthwise = self.weight.shape[1] == 1
        return F.conv2d(x, weight, padding=1 if depthwise else 0, groups=len(self.weight) if depthwise else 1)


@dataclass
class Loaded:
    """A lowered module in the engine.

    Attributes:
        lowered: What the delegate made.
        runner: What runs it.
    """

    lowered: LoweredModule
    runner: ExecuTorchRunner

    def __enter__(self) -> Loaded:
        return self

    def __exit__(self, *exc: object) -> None:
        self.runner.close()

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return [torch.from_numpy(output.copy()) for output in self.runner.execute([x.numpy() for x in inputs])]


def capture(module: nn.Module, inputs: Sequence[torch.Tensor], shapes: Any = None, precision: str = "fp32") -> Any:
    """The program as the pipeline hands it to the delegate, but for the rewrites."""
    if precision == "bf16" and not HAS_BF16:
        pytest.skip("oneDNN has no bfloat16 on this processor")
    program = capture_module(module.eval(), tuple(inputs), dynamic_shapes=shapes, source_root=HERE).program
    return convert_precision(program, precision)


def lower(program: CapturedProgram) -> LoweredModule:
    return OneDnnDelegate().lower(program, OneDnnOptions(allow_emulated=True))


def load(lowered: LoweredModule, threads: int = 2, *, trace: bool = False) -> Loaded:
    """Write and load; the caller closes it."""
    with tempfile.TemporaryDirectory() as folder:
        lowered.write(Path(folder))
        plugins = load_plugins(lowered.requirements.plugins, "test")
        path = Path(folder) / lowered.files[0]
        return Loaded(lowered, ExecuTorchRunner(path, lowered.methods[0], threads, trace=trace, plugins=plugins))


def read_pte(lowered: LoweredModule) -> tuple[bytearray, int]:
    """The file as it would be written, and where the plan of its only region begins."""
    with tempfile.TemporaryDirectory() as folder:
        lowered.write(Path(folder))
        content = bytearray((Path(folder) / lowered.files[0]).read_bytes())
    return content, content.index(b"EDGEXDNN")


def with_pte(lowered: LoweredModule, content: bytes) -> LoweredModule:
    """The lowered module with another file."""

    def write(folder: Path) -> None:
        (folder / lowered.files[0]).write_bytes(content)

    return replace(lowered, write=write)


def with_other_shape(lowered: LoweredModule, shape: Sequence[int], other: Sequence[int]) -> LoweredModule:
    """The lowered module with a plan in which the first such shape is another one, and the checksum right."""
    content, start = read_pte(lowered)
    old, new = (struct.pack(f"<{len(shape)}q", *sizes) for sizes in (shape, other))
    at = content.index(old, start)
    content[at : at + len(old)] = new
    size = struct.unpack_from("<Q", content, start + 16)[0]
    struct.pack_into("<Q", content, start + 40, checksum(bytes(content[start + 48 : start + 48 + size])))
    return with_pte(lowered, bytes(content))


def compare(wanted: Any, found: Sequence[torch.Tensor], precision: str = "fp32", *, label: str = "") -> None:
    """Outputs against eager's, by the tolerance of the precision."""
    expected = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
    assert len(expected) == len(found)
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        assert tuple(one.shape) == tuple(other.shape), f"{label} output {number}: {one.shape} and {other.shape}"
        assert one.square().mean().sqrt() > 1e-6, f"{label} output {number} proves nothing: it is near 0"
        decibels = sqnr_db(one, other)
        least = DEFAULT_TOLERANCES[precision].min_sqnr_db
        assert decibels >= least, f"{label} output {number}: SQNR {decibels:.1f} dB, wanted {least}"


def sqnr_db(wanted: torch.Tensor, found: torch.Tensor) -> float:
    """Signal to noise in decibels; 300 where they are equal."""
    one, other = wanted.double(), found.double()
    noise = (one - other).square().mean()
    return 300.0 if noise == 0 else float(10 * torch.log10(one.square().mean() / noise))


def check(
    module: nn.Module,
    *inputs: torch.Tensor,
    precision: str = "fp32",
    shapes: Any = None,
    left: int = 0,
    more: Sequence[Sequence[torch.Tensor]] = (),
) -> LoweredModule:
    """Lower, run on the inputs and on `more`, compare with eager; `left` operators stay outside of oneDNN."""
    with torch.no_grad():
        wanted = [module.eval()(*values) for values in (inputs, *more)]
    lowered = lower(capture(module, inputs, shapes, precision))
    plan = lowered.plan
    assert plan.total_ops - plan.delegated_ops == left, plan.fallbacks
    with load(lowered) as loaded:
        for values, expected in zip((inputs, *more), wanted, strict=True):
            compare(expected, loaded(*values), precision)
    return lowered
