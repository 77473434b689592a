"""Where NaN and infinity come out otherwise than in eager PyTorch: told, not judged.

Engines differ in what they make of them: a maximum may drop NaN, an exponential may give 0 for it. Such inputs are no
part of what an artifact promises; what it does with them stands in its manifest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from edgex.runtime.session.numerics import measure_sqnr_db

# Beside values near the end of float32's range, numbers count as equal from this SQNR on, in dB.
SAME_NUMBERS_DB = 60.0


@dataclass(frozen=True)
class SpecialValues:
    """One way in which an output differs.

    Attributes:
        input: What the inputs held: `NaN` or `infinity`.
        output: The output's name.
        eager: What eager gives: `NaN`, `inf`, `-inf`, a number where it is one only, else `numbers`.
        engine: What the artifact gives in the same places.
        count: In how many places.
    """

    input: str
    output: str
    eager: str
    engine: str
    count: int

    def to_json(self) -> dict[str, Any]:
        """One entry of the verification's `nan_inf`."""
        return asdict(self)

    @property
    def sentence(self) -> str:
        """For a person."""
        places = "1 place" if self.count == 1 else f"{self.count} places"
        return f"{self.input}: {self.output} has {self.engine} where eager has {self.eager}, in {places}"


def compare_special_values(fed: str, output: str, eager: np.ndarray, engine: np.ndarray) -> list[SpecialValues]:
    """How an output differs from eager's where inputs hold NaN or infinity.

    Args:
        fed: What the inputs hold, for `SpecialValues.input`.
        output: The output's name.
        eager: Eager's answer.
        engine: The artifact's.
    """
    if eager.shape != engine.shape:
        return [SpecialValues(fed, output, f"shape {eager.shape}", f"shape {engine.shape}", 1)]
    if eager.dtype.kind not in "fc":
        wrong = eager != engine
        return [_entry(fed, output, "numbers", "numbers", eager[wrong], engine[wrong])] if wrong.any() else []
    kinds = list(zip(_kinds(eager).reshape(-1), _kinds(engine).reshape(-1), strict=True))
    found = [pair for pair in Counter(kinds) if pair[0] != pair[1]]
    flat_eager, flat_engine = eager.reshape(-1), engine.reshape(-1)
    entries = []
    for pair in found:
        places = np.array([kind == pair for kind in kinds])
        entries.append(_entry(fed, output, *pair, flat_eager[places], flat_engine[places]))
    if not entries and measure_sqnr_db(eager, engine) < SAME_NUMBERS_DB:
        entries.append(
            SpecialValues(fed, output, "numbers", "other numbers", int(np.sum((eager != engine) & ~np.isnan(eager))))
        )
    return entries


def _kinds(array: np.ndarray) -> np.ndarray:
    real = np.real(array) if array.dtype.kind == "c" else array
    kinds = np.full(array.shape, "numbers", dtype=object)
    kinds[np.isnan(array)] = "NaN"
    kinds[np.isinf(array) & (real > 0)] = "inf"
    kinds[np.isinf(array) & (real <= 0)] = "-inf"
    return kinds


def _entry(fed: str, output: str, before: str, after: str, eager: np.ndarray, engine: np.ndarray) -> SpecialValues:
    return SpecialValues(fed, output, _shown(before, eager), _shown(after, engine), int(eager.size))


def _shown(kind: str, values: np.ndarray) -> str:
    """One number as itself, several as `numbers`."""
    return f"{values.flat[0]:.3g}" if kind == "numbers" and np.all(values == values.flat[0]) else kind
