"""Every combination once, and what cannot be exported is refused with its reason before anything is slow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgex.delegates.registry import delegate_names
from edgex.errors import DeviceError, UsageError
from edgex.export.pick.candidates import Candidate, check_candidates, list_candidates, settings_for
from edgex.export.pick.plan import PickSettings, plan_pick
from edgex.export.settings import ExportSettings
from edgex.runtime.execute.address import open_executor


def test_recipes_start_from_float32_and_nothing_is_listed_twice() -> None:
    found = list_candidates(["xnnpack", "xnnpack", "onednn"], ["fp32", "bf16"], ["none", "int8"])
    assert [one.label for one in found] == [
        *("xnnpack", "xnnpack bf16", "xnnpack int8"),
        *("onednn", "onednn bf16", "onednn int8"),
    ]
    assert {one.target for one in list_candidates(["all"], ["fp32"], ["none"])} == set(delegate_names())


def test_what_a_target_does_not_take_is_refused_with_the_reason() -> None:
    asked = [Candidate("xnnpack"), Candidate("xnnpack", "bf16"), Candidate("onnx-cpu", "fp32", "int8-weight")]
    possible, refused = check_candidates(asked, ExportSettings(()), "net")
    assert possible == asked[:1]
    assert [(loser.stage, loser.candidate) for loser in refused] == [("refused", asked[1]), ("refused", asked[2])]
    assert "does not take --precision bf16" in refused[0].reason and "int8-weight" in refused[1].reason


def test_calibration_and_options_reach_those_that_take_them() -> None:
    common = ExportSettings((), calibration="random:4", options={"xnnpack.workspace": 1, "threads": 2})
    dynamic = settings_for(common, [Candidate("onnx-cpu", "fp32", "int8-dynamic")])
    assert dynamic.calibration is None and dict(dynamic.options) == {"threads": 2}
    static = settings_for(common, [Candidate("xnnpack", "fp32", "int8")])
    assert static.calibration == "random:4" and dict(static.options) == dict(common.options)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"targets": ("xnpack",)}, "unknown target 'xnpack'"),
        ({"precisions": ("fp33",)}, "unknown precision 'fp33'"),
        ({"recipes": ("int9",)}, "int9"),
        ({"precisions": ("bf16",), "targets": ("xnnpack",)}, "none of the candidates can be exported here"),
        ({"objective": "speed"}, "unknown objective 'speed'"),
        ({"data": "random:8"}, "judges nothing"),
        ({"data": "no.npz"}, "no such file"),
        ({"targets": ()}, "nothing to pick from"),
    ],
)
def test_wrong_flags_are_refused_at_once(changes: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        plan_pick(PickSettings(ExportSettings(()), **changes), "net")


def test_energy_without_a_meter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgex.runtime.execute.here import meters

    monkeypatch.setattr(meters, "energy_domains", list)
    with pytest.raises(UsageError, match="no energy meter") as caught:
        plan_pick(PickSettings(ExportSettings(()), objective="energy"), "net")
    assert "--objective latency" in str(caught.value)


def test_a_fake_device_that_is_not_ready_is_refused_before_anything_is_exported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = PickSettings(ExportSettings(()), ("xnnpack",), threads=(1,))
    with open_executor("local-native") as device:
        ready = device.describe()
        monkeypatch.setattr(device, "describe", lambda: replace(ready, problems=("its disk is full",)))
        with pytest.raises(DeviceError, match="cannot run artifacts") as caught:
            plan_pick(settings, "net", device)
    assert caught.value.why == "its disk is full"
