"""Whether this processor has the instruction sets that an artifact asks for, and whether it clips sums of bytes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgex.runtime.support.machine.host import read_host

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import Artifact

# With one of these a processor adds products of bytes in 32 bits.
_EXACT_BYTES = ("avx512_vnni", "avx_vnni", "amx_int8")


def missing_isa(required: Sequence[str]) -> list[str]:
    """Those of `required`, by Linux's names, that the processor lacks; none where the system does not tell."""
    present = read_host().isa if required else None
    return [] if present is None else [name for name in required if name not in present]


def saturates_bytes() -> bool:
    """Whether kernels for 8-bit weights may give wrong sums here.

    x86 without VNNI has one instruction for bytes, `vpmaddubsw`, which adds two products of an unsigned and a signed
    byte in 16 bits and clips what does not fit: 2 x 255 x 127 does not, 2 x 255 x 63 does. ONNX Runtime and oneDNN
    use it (measured), OpenVINO is taken to, XNNPACK does not. False where the system does not tell.
    """
    host = read_host()
    return host.machine == "x86_64" and host.isa is not None and not any(name in host.isa for name in _EXACT_BYTES)


def warn_of_clipped_bytes(artifact: Artifact, recipes: Sequence[str]) -> None:
    """Warn where the artifact's weights have 8 bits, and kernels for these clip sums here.

    Args:
        artifact: What is about to be loaded.
        recipes: Those for which its engine uses such kernels.
    """
    quantization = artifact.manifest.quantization
    wide = quantization is not None and quantization["recipe"] in recipes and quantization["weight_bits"] == 8
    if wide and saturates_bytes():
        warnings.warn(
            f"{artifact.path.name} has weights of 8 bits, and this processor no VNNI: sums of products may be clipped. "
            f"`edgex verify {artifact.path.name}` tells whether its numbers are right here; exported on this machine, "
            "weights have 7 bits",
            stacklevel=3,
        )
