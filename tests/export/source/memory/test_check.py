"""Models that memory will not hold: refused with figures before the slow steps, and not where nothing is refused."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import edgex
from edgex.delegates.recipes.recipes import RECIPE_NAMES
from edgex.delegates.registry import delegate_names, get_delegate
from edgex.errors import ArtifactError, UsageError
from edgex.export.source import stage
from edgex.export.source.memory import check
from edgex.export.source.memory.check import check_memory, needed_bytes, peak_factor, refusing_large_models
from edgex.export.source.user_file import run_user_code
from edgex.runtime.support.machine.memory import read_available_bytes

XNNPACK = get_delegate("xnnpack")
KILO = nn.Linear(250, 1, bias=False)  # a kilobyte of weights


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 10, bias=False)
        self.second = nn.Linear(10, 10, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("view", self.first.weight.detach().view(100))


def test_shared_weights_count_once():
    assert needed_bytes(Tied(), [get_delegate("reference")]) == 800
    with torch.device("meta"):
        assert needed_bytes(nn.Linear(10, 10, bias=False), [get_delegate("reference"), XNNPACK]) == 1200


def test_the_hungriest_target_counts():
    assert peak_factor([get_delegate("reference"), XNNPACK]) == 3.0
    assert peak_factor([object()]) == peak_factor([]) == 2.0


def test_quantizing_takes_more():
    """The calibrated copy comes on top; what fits as float32 does not have to fit as int8."""
    with torch.device("meta"):
        model = nn.Linear(25_000, 10_000, bias=False)  # a gigabyte
    check_memory(model, [XNNPACK], lambda: 2_500_000_000)
    with pytest.raises(ArtifactError) as caught:
        check_memory(model, [XNNPACK], lambda: 2_500_000_000, "int8")
    assert "an export with int8 about 5 times that: 5.0 GB needed" in caught.value.why
    for recipe in RECIPE_NAMES:
        for delegate in map(get_delegate, delegate_names()):
            # In 4 bits, oneDNN holds less beside the model than in float32.
            assert peak_factor([delegate], recipe) >= (peak_factor([delegate]) if recipe.startswith("int8") else 2.0)
    onnx = [get_delegate("onnx-cpu")]
    assert peak_factor(onnx, "int8") > peak_factor(onnx, "int4-weight") > peak_factor(onnx)


def test_export_tells_the_check_what_it_quantizes(tmp_path, monkeypatch):
    # With the kilobyte that the weights hold: enough for float32, not for int8.
    monkeypatch.setattr(stage, "read_available_bytes", lambda: 3500)
    with pytest.raises(ArtifactError, match="needs more memory than there is"):
        edgex.export_model(KILO, (torch.rand(1, 250),), target="xnnpack", quantize="int8", output=tmp_path)


def test_the_refusal_has_figures():
    with torch.device("meta"):
        model = nn.Linear(25_000, 10_000, bias=False)  # a gigabyte
    check_memory(model, [XNNPACK], lambda: 3_000_000_000)
    check_memory(model, [XNNPACK], lambda: None)
    check_memory(model, [get_delegate("reference")], lambda: 1_900_000_000)
    with pytest.raises(ArtifactError) as caught:
        check_memory(model, [get_delegate("reference"), XNNPACK], lambda: 1_900_000_000)
    assert caught.value.exit_code == 6
    assert "3.0 GB needed, 2.9 GB available" in caught.value.why
    assert "--no-memory-check" in caught.value.fix


def test_a_model_is_refused_while_it_is_made():
    """Before its weights get values: nothing is allocated beyond the limit."""
    made = []

    def make():
        for _ in range(5):
            made.append(nn.Linear(250, 1, bias=False))

    with pytest.raises(ArtifactError, match="weights alone need more memory") as caught, refusing_large_models(3000):
        run_user_code(make, "model.py", stage.__file__)
    assert len(made) == 3
    assert "available" in caught.value.why
    with refusing_large_models(None):
        make()
    assert len(made) == 8


def test_weights_that_were_dropped_do_not_count():
    with refusing_large_models(3000):
        for _ in range(20):
            nn.Linear(250, 1, bias=False)


def test_weights_without_values_are_made():
    with refusing_large_models(3000), torch.device("meta"):
        nn.Linear(10**6, 10**6)


def test_an_allocation_that_the_system_refuses(tmp_path):
    with pytest.raises(ArtifactError) as caught, refusing_large_models(1 << 62):
        run_user_code(lambda: torch.empty(1 << 50), "model.py", tmp_path)
    assert "4503599.6 GB" in caught.value.why
    with pytest.raises(UsageError, match="fails"), refusing_large_models(1 << 62):
        run_user_code(lambda: [][1], "model.py", tmp_path)


def test_export_refuses_before_it_captures(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "read_available_bytes", lambda: 999)
    monkeypatch.setattr("edgex.export.capture.program.capture", lambda *_args, **_kwargs: pytest.fail("captured"))
    with pytest.raises(ArtifactError, match="needs more memory than there is") as caught:
        edgex.export_model(KILO, (torch.rand(1, 250),), target="reference", output=tmp_path)
    assert caught.value.stage == "find"
    assert list(tmp_path.iterdir()) == []


def test_the_check_can_be_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, "read_available_bytes", lambda: 999)
    seen = []
    monkeypatch.setattr("edgex.export.capture.program.capture", lambda *_args, **_kwargs: seen.append(1) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        edgex.export_model(KILO, (torch.rand(1, 250),), target="reference", output=tmp_path, memory_check=False)
    assert seen == [1]


def make_group(folder, files):
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def test_available_memory_heeds_control_groups(tmp_path):
    free = SimpleNamespace(available=10_000)
    assert read_available_bytes(tmp_path, free) == 10_000
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/jobs/one\n")
    group = tmp_path / "sys/fs/cgroup/jobs"
    make_group(group / "one", {"memory.max": "max\n", "memory.current": "900\n"})
    assert read_available_bytes(tmp_path, free) == 10_000
    stat = "anon 500\nactive_file 100\ninactive_file 200\n"
    for name, text in {"memory.max": "1000\n", "memory.current": "900\n", "memory.stat": stat}.items():
        (group / name).write_text(text)
    assert read_available_bytes(tmp_path, free) == 400


def test_available_memory_heeds_older_control_groups(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("5:cpu,cpuacct:/a\n4:memory:/box\n")
    files = {"memory.limit_in_bytes": "1000", "memory.usage_in_bytes": "1200"}
    make_group(tmp_path / "sys/fs/cgroup/memory/box", files)
    assert read_available_bytes(tmp_path, SimpleNamespace(available=10_000)) == 0
    assert read_available_bytes() > 0


def test_figures_in_gigabytes():
    assert check._gigabytes(7_250_000_000) == "7.2 GB"
