"""Which precisions a target computes in on a processor, without converting to another one.

From the engines' sources, not from a measurement on each processor: ONNX Runtime's CPU provider casts float16 to
float32 around its kernels; XNNPACK has float16 kernels for avx512_fp16 and ARM's half-precision arithmetic; oneDNN and
PyTorch compute bfloat16 with avx512_bf16 or AMX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# Target -> precision -> instruction sets of which one must be there; empty: any processor.
_NATIVE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "aoti": {"fp32": (), "bf16": ("avx512_bf16", "amx_bf16")},
    "xnnpack": {"fp32": (), "fp16": ("avx512_fp16", "asimdhp")},
    "onednn": {"fp32": (), "bf16": ("avx512_bf16", "amx_bf16")},
    "onnx-cpu": {"fp32": ()},
    "litert": {"fp32": ()},
    "reference": {"fp32": (), "bf16": ("avx512_bf16", "amx_bf16", "bf16")},
}


def native_precisions(target: str, isa: Sequence[str] | None) -> list[str] | None:
    """The precisions that run natively; None where nobody knows (a plug-in's target, a GPU that is not here).

    Args:
        target: Name of the target.
        isa: The processor's instruction sets by Linux's names, or None where the system does not tell.
    """
    known = _NATIVE.get(target)
    if known is None:
        return None
    present = set(isa or ())
    return [precision for precision, needed in known.items() if not needed or present & set(needed)]
