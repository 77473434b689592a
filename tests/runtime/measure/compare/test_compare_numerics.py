"""How far outputs are apart: stress inputs apart from those that the model is made for."""

from __future__ import annotations

import numpy as np

from edgex.runtime.artifact.golden import Case
from edgex.runtime.measure.compare.numerics import measure_distance
from edgex.runtime.report.comparison import _list_operators, _sqnr_to_first


class Told:
    """Stands for a contrast, of which only the numerics are asked."""

    def __init__(self, numerics):
        self.numerics = numerics


def test_a_clipped_stress_input_says_nothing_about_a_quantized_model():
    cases = [Case("example", "compare"), Case("stress: large", "compare")]
    reference = np.linspace(-1, 1, 64, dtype=np.float32)
    noise = 0.01 * np.sin(np.arange(64, dtype=np.float32))
    baseline = [[{"y": reference}], [{"y": 100 * reference}]]
    candidate = [[{"y": reference + noise}], [{"y": np.clip(100 * reference, -1.0, 1.0)}]]
    found = measure_distance(cases, baseline, candidate, {})
    assert 35 < found.typical_sqnr_db < 45, f"{found.typical_sqnr_db} dB"
    assert found.min_sqnr_db < 1, f"{found.min_sqnr_db} dB"
    shown = _sqnr_to_first(Told(found))
    assert shown.startswith(f"{found.typical_sqnr_db:.0f} dB (stress inputs: "), shown
    assert found.to_json()["typical_sqnr_db"] == float(f"{found.typical_sqnr_db:.2g}")


def test_without_stress_there_is_one_figure():
    cases = [Case("example", "compare")]
    reference = [[{"y": np.linspace(-1, 1, 64, dtype=np.float32)}]]
    assert _sqnr_to_first(Told(measure_distance(cases, reference, reference, {}))) == "exact"


def test_operators_are_counted_and_their_list_ends():
    names = ("aten.conv2d", "aten.relu", "aten.conv2d", "aten.add", "aten.mul", "aten.mul", "aten.sub")
    assert _list_operators(names) == "conv2d x 2, relu, add +3 more"
    assert _list_operators(()) == ""
