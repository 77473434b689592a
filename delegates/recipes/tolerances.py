"""How far an artifact may be from eager, by precision and recipe, unless its delegate or the user says otherwise."""

from __future__ import annotations

from collections.abc import Mapping

from edgex.runtime.session.numerics import Tolerance

# A float program whose cache is in 8 bits: where a number lies between two steps, engine and eager may round apart.
CACHE_IN_BYTES = "int8-cache"

# fp32: max_abs <= 1e-4 * max(1, reference_max); the lower precisions and the recipes are judged by SQNR.
DEFAULT_TOLERANCES: Mapping[str, Tolerance] = {
    "fp32": Tolerance(min_sqnr_db=80.0, atol=1e-4, rtol=1e-4),
    "fp16": Tolerance(min_sqnr_db=40.0),
    "bf16": Tolerance(min_sqnr_db=30.0),
    "int8": Tolerance(min_sqnr_db=20.0, min_equal=0.9),
    "a16w8": Tolerance(min_sqnr_db=25.0, min_equal=0.9),
    "int8-dynamic": Tolerance(min_sqnr_db=20.0, min_equal=0.9),
    "8da8w": Tolerance(min_sqnr_db=20.0, min_equal=0.9),
    "8da4w": Tolerance(min_sqnr_db=8.0, min_equal=0.9),
    "int8-weight": Tolerance(min_sqnr_db=25.0, min_equal=0.9),
    "int4-weight": Tolerance(min_sqnr_db=8.0, min_equal=0.9),
    CACHE_IN_BYTES: Tolerance(min_sqnr_db=30.0),
}

# How far an engine may be from PyTorch running the same quantized program: a value near the middle between two steps
# may round to either, and both go on from there. An engine that keeps digits which the program rounds away differs by
# all of the program's rounding; where that is more than this allows, the case has a limit of its own. A lost scale is
# below 0 dB.
QUANTIZED_TOLERANCE = Tolerance(min_sqnr_db=15.0, min_equal=0.9)
