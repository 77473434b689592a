"""The fuzzer of the oneDNN backend: how it is built, and the plans that it damages, which come from real models."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from language_support import make_decoder
from onednn_support import Int8Linear, Network, capture, lower, read_pte, rounded
from torch import nn

import edgex
from edgex.delegates.onednn.operators import attention
from edgex.runtime.engines.onednn.build import SOURCES
from edgex.runtime.engines.onednn.library import find_library, find_toolchain
from edgex.runtime.support.native_build import executorch_flags

FUZZER = Path(__file__).parents[1] / "delegates" / "onednn" / "fuzz"
# The sanitizers' own switches: oneDNN keeps what it made until the process ends.
ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=512",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "OMP_NUM_THREADS": "1",
}


def build_fuzzer(folder: Path) -> Path | None:
    """Compile it with AddressSanitizer and UndefinedBehaviorSanitizer; None where there is no g++."""
    compiler = shutil.which("g++")
    if compiler is None:
        return None
    program = folder / "fuzz"
    toolchain, onednn = find_toolchain(), find_library()
    # The fuzzer brings memory of its own.
    sources = [path for path in sorted(SOURCES.rglob("*.cpp")) if path.name != "allocator.cpp"]
    command = [
        *(compiler, "-std=c++17", "-O0", "-g", "-fopenmp", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
        # The loader would choose between clones before the sanitizer is there.
        *("-DEDGEX_FOR_EACH_PROCESSOR=", f"-I{SOURCES}", "-isystem", str(toolchain.onednn_include)),
        *map(str, [*sources, *sorted(FUZZER.glob("*.cpp"))]),
        *executorch_flags(toolchain.executorch),
        *("-o", str(program), "-lexecutorch", str(onednn)),
        *(f"-Wl,-rpath,{toolchain.executorch / 'lib'}", f"-Wl,-rpath,{onednn.parent}", "-Wl,--allow-shlib-undefined"),
    ]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return program


def run_fuzzer(program: Path, plans: Sequence[Path], first: int, rounds: int) -> subprocess.CompletedProcess[str]:
    """Damage each plan in `rounds` ways, beginning with number `first`; each way is the same every time."""
    command = [str(program), str(first), str(rounds), *map(str, plans)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, errors="replace")


def write_plans(folder: Path, names: Sequence[str] | None = None) -> list[Path]:
    """The plan of each of some small models, or of those of these names, as files."""
    paths = []
    for name, make in MODELS.items():
        if names is None or name in names:
            paths.append(folder / f"{name}.plan")
            paths[-1].write_bytes(make())
    return paths


def read_plan(lowered: Any) -> bytes:
    """The plan's bytes inside of a .pte with one region."""
    content, start = read_pte(lowered)
    return _plan_at(content, start)


def _plan_at(content: bytes | bytearray, start: int) -> bytes:
    header = content[start : start + 48]
    end = int.from_bytes(header[24:32], "little") + int.from_bytes(header[32:40], "little")
    return bytes(content[start : start + end])


def _plan(module: nn.Module, inputs: Sequence[torch.Tensor], shapes: Any = None, precision: str = "fp32") -> bytes:
    return read_plan(lower(capture(module, inputs, shapes, precision)))


def mixed() -> Any:
    """A lowered program with views, constants of several kinds, integers, an embedding and a dynamic batch."""
    torch.manual_seed(0)
    network = Network(
        lambda x, i, c, n, q, e: q(rounded(F.relu(n(c(x).flatten(2).transpose(1, 2))) * 2 + e(i))),
        nn.Conv2d(3, 8, 3),
        nn.Linear(8, 5),
        Int8Linear(5, 6),
        nn.Embedding(4, 5),
    )
    shapes = {"inputs": ({0: torch.export.Dim("batch", min=1, max=6)}, None)}
    return lower(capture(network, (torch.randn(2, 3, 6, 6), torch.arange(16) % 4), shapes))


def _convolutions() -> bytes:
    torch.manual_seed(0)

    def run(x: torch.Tensor, *layers: nn.Module) -> torch.Tensor:
        stem, first, second, norm, up, pointwise = layers
        x = F.max_pool2d(F.relu(stem(x)), 3, 2, 1, ceil_mode=True)
        x = F.relu6(norm(second(F.silu(first(x)))) + x)
        x = torch.cat([F.avg_pool2d(x, 2), F.hardswish(pointwise(x))[:, :, :6:2, :6:2]], 1)
        return F.interpolate(up(x), scale_factor=2.0, mode="bilinear").mean((2, 3))

    layers = (
        *(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=4)),
        *(nn.Conv2d(8, 8, 3, padding=2, dilation=2), nn.BatchNorm2d(8)),
        *(nn.ConvTranspose2d(16, 6, 2, stride=2), nn.Conv2d(8, 8, 1)),
    )
    return _plan(Network(run, *layers), (torch.randn(2, 3, 24, 24),))


def _encoder(cached_bytes: int, precision: str) -> bytes:
    """A layer of a transformer; with `cached_bytes` of 0 its attention is the backend's own."""
    torch.manual_seed(0)

    def run(x: torch.Tensor, mask: torch.Tensor, *layers: nn.Module) -> torch.Tensor:
        norm, qkv, out, wide, narrow = layers
        q, k, v = (part.unflatten(-1, (2, 8)).transpose(1, 2) for part in qkv(norm(x)).chunk(3, -1))
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + out(attended.transpose(1, 2).flatten(2))
        return (x + narrow(F.gelu(wide(x), approximate="tanh"))).log_softmax(-1)

    layers = (nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 32), nn.Linear(32, 16))
    before = attention._CACHED_BYTES
    attention._CACHED_BYTES = cached_bytes
    try:
        return _plan(Network(run, *layers), (torch.randn(2, 12, 16), torch.randn(2, 1, 12, 12)), None, precision)
    finally:
        attention._CACHED_BYTES = before


def _open_sizes() -> bytes:
    """Two open sizes, through pooling and views."""
    torch.manual_seed(0)
    network = Network(
        lambda x, c, d: d(F.max_pool2d(F.relu(c(x)), 2).flatten(2).transpose(1, 2)).softmax(-1),
        nn.Conv2d(3, 8, 3, padding=1),
        nn.Linear(8, 4),
    )
    dims = {0: torch.export.Dim("batch", min=1, max=4), 2: 2 * torch.export.Dim("half", min=2, max=8)}
    return _plan(network, (torch.randn(2, 3, 8, 6),), {"inputs": (dims,)})


def _elements() -> bytes:
    torch.manual_seed(0)

    def run(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.maximum(x.exp(), y) - x.abs().sqrt() * torch.minimum(x, y).square()
        b = (F.elu(x) + F.leaky_relu(y) + F.mish(x) + F.softplus(y)) / (x.sigmoid() + 1)
        c = F.hardsigmoid(x).round() + x.clamp(-1, 2) + (y * y + 1).log() + y.tanh()
        return a.amax(1), b.transpose(1, 2).sum(-1), c.amin((1, 2)), (a + b + c).prod(1)

    return _plan(Network(run), (torch.randn(3, 5, 8), torch.randn(3, 5, 8)))


def _choices() -> bytes:
    """Masks and numbers that choose, with an open size."""

    def run(x: torch.Tensor, mask: torch.Tensor, numbers: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.where(mask, x.exp(), -1.0), x.abs().gather(1, numbers)

    dims = {0: torch.export.Dim("rows", min=2, max=6)}
    inputs = (torch.randn(3, 5), torch.ones(3, 1, dtype=torch.bool), torch.arange(12).reshape(3, 4) % 5)
    return _plan(Network(run), inputs, {"inputs": (dims, dims, dims)})


def _decoder(**quantization: Any) -> bytes:
    """Of a small language model: attention over caches that it writes, layers in few bits, an open length."""
    with tempfile.TemporaryDirectory() as folder:
        made = edgex.export_model(
            make_decoder(), target="onednn", context=24, chunk=4, output=folder, name="decoder", **quantization
        )
        content = (made.path / "model.pte").read_bytes()
    starts = [found.start() for found in re.finditer(b"EDGEXDNN", content)]
    return max((_plan_at(content, start) for start in starts), key=len)


MODELS: dict[str, Callable[[], bytes]] = {
    "mixed": lambda: read_plan(mixed()),
    "convolutions": _convolutions,
    "encoder": lambda: _encoder(4 << 20, "fp32"),
    "own_attention": lambda: _encoder(0, "fp32"),
    "own_attention_bf16": lambda: _encoder(0, "bf16"),
    "open_sizes": _open_sizes,
    "elements": _elements,
    "choices": _choices,
    "decoder": _decoder,
    "four_bits": lambda: _decoder(quantize="8da4w", group_size=16),
    "eight_bits": lambda: _decoder(quantize="8da8w"),
}
