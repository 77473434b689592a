"""What quantizing makes."""

from __future__ import annotations

from dataclasses import dataclass

from edgex.delegates.base import CapturedProgram
from edgex.export.quantization.unquantized import FloatOperator


@dataclass(frozen=True)
class Quantized:
    """A quantized program.

    Attributes:
        program: Holds quantize and dequantize operators; `recipe` and `float_modules` are set.
        unquantized: Operators that the recipe is there for and that stayed in floating point.
    """

    program: CapturedProgram
    unquantized: tuple[FloatOperator, ...]
