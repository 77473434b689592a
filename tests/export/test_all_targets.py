"""`-t all`: every target that works here and takes what is asked."""

from __future__ import annotations

import pytest

from edgex.delegates.registry import delegate_names
from edgex.errors import UsageError
from edgex.export.all_targets import expand_all
from edgex.export.settings import ExportSettings


def test_all_is_what_works_here_and_takes_what_is_asked() -> None:
    asked = ExportSettings(("all", "xnnpack"), precision="fp16")
    found, notices = expand_all(asked, {"onnx-cpu": "no ONNX Runtime", "reference": None})
    assert found.targets[0] == "xnnpack" and found.targets.count("xnnpack") == 1  # what is named is never left out
    assert "reference" in found.optional and found.targets == ("xnnpack", *found.optional)
    assert not {"all", "onnx-cpu", "onednn"} & set(found.targets)
    (notice,) = notices
    assert "onnx-cpu: no ONNX Runtime" in notice and "onednn' does not take --precision fp16" in notice
    plain = ExportSettings(("reference",))
    assert expand_all(plain, {}) == (plain, ())


def test_all_that_is_nothing() -> None:
    with pytest.raises(UsageError, match="no target works here") as caught:
        expand_all(ExportSettings(("all",)), dict.fromkeys(delegate_names(), "gone"))
    assert "xnnpack: gone" in str(caught.value.why)
