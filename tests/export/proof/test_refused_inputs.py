"""Which inputs an artifact refuses to take NaN and infinity in: all that were not proved to come out as in eager."""

from __future__ import annotations

import numpy as np
import pytest

from edgex.export.proof.special_values import find_refused
from edgex.runtime.artifact.golden import Case, Kind, Step

INPUTS = {
    "x": np.ones((2, 3), np.float32),
    "mask": np.array([0, -np.inf], np.float32),
    "ids": np.arange(3),
    "nothing": np.ones((0,), np.float32),
}


def make_case(name: str, kind: Kind) -> Case:
    return Case(name, kind, (Step(INPUTS, {}),) if kind != "skipped" else ())


@pytest.mark.parametrize(
    ("kinds", "otherwise", "refused"),
    [
        ({"NaN": "report", "infinity": "report"}, set(), []),
        ({"NaN": "report", "infinity": "report"}, {"NaN"}, ["NaN"]),
        # Quantized artifacts are not tried; an engine that did not survive it, or an eager that raises, has no case.
        ({}, set(), ["NaN", "infinity"]),
        ({"NaN": "report", "infinity": "skipped"}, set(), ["infinity"]),
    ],
)
def test_what_is_not_proved_is_refused(kinds, otherwise, refused) -> None:
    cases = [make_case("example", "compare"), *(make_case(f"stress: {fed}", kind) for fed, kind in kinds.items())]
    verdicts = [
        {"name": case.name, "verdict": "warning" if case.name.removeprefix("stress: ") in otherwise else "pass"}
        for case in cases
    ]
    assert find_refused({"cases": verdicts}, cases) == [{"values": fed, "inputs": ["x"]} for fed in refused]
