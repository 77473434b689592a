"""Which machines AOTInductor's packages are for, as edgex compiles them: Linux on x86-64, by instruction sets."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping

from edgex.runtime.engines.base import Availability
from edgex.runtime.engines.isa import missing_isa

# What a package compiled for each asks of the processor, by Linux's names. One that has `avx512bw` has `avx512dq` and
# `avx512vl` too, with which it came.
INSTRUCTION_SETS: Mapping[str, tuple[str, ...]] = {
    "avx512": ("avx2", "fma", "f16c", "avx512f", "avx512bw"),
    "avx2": ("avx2", "fma", "f16c"),
}


def check_machine() -> Availability:
    """Whether packages can run here."""
    other = "export to another target: -t xnnpack or -t onnx-cpu"
    if sys.platform != "linux" or platform.machine() != "x86_64":
        machine = f"{sys.platform} on {platform.machine()}"
        return Availability(False, f"packages of AOTInductor are for Linux on x86-64, this is {machine}", other)
    missing = missing_isa(INSTRUCTION_SETS["avx2"])
    if missing:
        return Availability(False, f"the processor lacks {', '.join(missing)}", other)
    return Availability(True)
