"""Weights on disk: the same values at the same strides, in memory that the system can take back."""

import gc
from collections import namedtuple
from pathlib import Path

import pytest
import torch
from torch import nn

import edgex
from edgex.delegates.graph.torch_internals import count_owners, storage_of
from edgex.delegates.registry import get_delegate
from edgex.errors import ArtifactError
from edgex.export.language_model.source import take_as_float32
from edgex.export.settings import ExportSettings
from edgex.export.source import stage
from edgex.export.source.memory import on_disk
from edgex.export.source.memory.check import check_memory, refusing_large_models
from edgex.export.source.memory.on_disk import WeightsOnDisk, find_disk_folder, is_in_memory, map_bytes
from edgex.export.source.source import wrap_model

MEGA = 1 << 20
Usage = namedtuple("Usage", "free")
Partition = namedtuple("Partition", "mountpoint fstype")


def test_owners_are_counted():
    """What upgrades of torch may move: an own number for each tensor that lies in the memory."""
    weight = nn.Parameter(torch.rand(8))
    assert count_owners(weight) == 1
    alias = weight.detach()
    assert count_owners(weight) == count_owners(alias) == 2
    del alias
    assert count_owners(weight) == 1


LAYOUTS = {
    "contiguous": lambda values: values,
    "channels_last": lambda values: values.to(memory_format=torch.channels_last),
    "transposed": lambda values: values.transpose(0, 3),
    "part": lambda values: values[3:, 5:],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_values_and_strides_stay(layout, tmp_path):
    values = LAYOUTS[layout](torch.rand(64, 64, 16, 16))
    parameter = nn.Parameter(values.detach())
    expected = parameter.detach().clone(), parameter.shape, parameter.stride(), parameter.dtype
    held = parameter.untyped_storage().nbytes()
    del values
    disk = WeightsOnDisk(tmp_path)
    assert disk.move([parameter]) == disk.bytes == held
    assert torch.equal(parameter, expected[0])
    assert (parameter.shape, parameter.stride(), parameter.dtype) == expected[1:]
    assert parameter.requires_grad
    assert not is_in_memory(parameter)
    assert disk.move([parameter]) == 0
    assert list(tmp_path.iterdir()) == []  # no name that could outlive the process


def test_what_shares_memory_goes_on_sharing_it(tmp_path):
    whole = torch.rand(2, MEGA)
    one, other = nn.Parameter(whole[0]), nn.Parameter(whole[1])
    del whole
    disk = WeightsOnDisk(tmp_path)
    assert disk.move([one, other, one]) == 8 * MEGA
    assert storage_of(one) == storage_of(other)


def test_weights_that_others_hold_stay_in_memory(tmp_path):
    """A view would not see what is written later."""
    base = torch.zeros(MEGA)
    parameter = nn.Parameter(base)
    disk = WeightsOnDisk(tmp_path)
    assert disk.move([parameter]) == 0
    base.fill_(3.0)
    assert parameter.eq(3.0).all()
    del base
    assert disk.move([parameter]) == 4 * MEGA
    assert parameter.eq(3.0).all()


def test_small_weights_stay_in_memory(tmp_path):
    assert WeightsOnDisk(tmp_path).move(nn.Linear(100, 100).parameters()) == 0


def test_memory_of_others_is_not_moved(tmp_path):
    """A mapped checkpoint is on disk as it is."""
    mapped = torch.from_file(str(tmp_path / "weights.bin"), shared=True, size=MEGA)
    assert WeightsOnDisk(tmp_path).move([nn.Parameter(mapped)]) == 0


def test_a_disk_without_room(tmp_path, monkeypatch):
    monkeypatch.setattr(on_disk.shutil, "disk_usage", lambda _folder: Usage(300 * MEGA))
    with pytest.raises(OSError, match=r"has 0\.3 GB left"):
        map_bytes(100 * MEGA, tmp_path)
    model = nn.Linear(5000, 5000)
    disk = WeightsOnDisk(tmp_path)
    with pytest.raises(ArtifactError) as caught:
        check_memory(model, [], lambda: 10 * MEGA, disk=disk)
    assert f"0.1 GB available; not on disk: {tmp_path} has 0.3 GB left" in caught.value.why
    assert is_in_memory(model.weight)


def test_places_that_are_memory_are_no_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(on_disk.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(on_disk.psutil, "disk_partitions", lambda all: [Partition("/", "ext4")])
    assert find_disk_folder() == tmp_path
    partitions = [Partition("/", "ext4"), Partition(str(tmp_path.resolve()), "tmpfs")]
    monkeypatch.setattr(on_disk.psutil, "disk_partitions", lambda all: partitions)
    assert find_disk_folder() == Path("/var/tmp")
    monkeypatch.setattr(on_disk.psutil, "disk_partitions", lambda all: [Partition("/", "tmpfs")])
    with pytest.raises(OSError, match="lies in memory; TMPDIR names another place"):
        find_disk_folder()


def test_a_model_larger_than_memory_is_made(tmp_path):
    """Each layer leaves memory as the next is made; without a disk it would be refused at the third."""
    disk = WeightsOnDisk(tmp_path)
    with refusing_large_models(10 * MEGA, disk):
        layers = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(8)))
    assert disk.bytes == 7 * 4 * MEGA
    assert [is_in_memory(layer.weight) for layer in layers] == [False] * 7 + [True]
    assert all(0.01 < layer.weight.std() < 0.05 for layer in layers)
    with pytest.raises(ArtifactError, match="weights alone"), refusing_large_models(10 * MEGA):
        [nn.Linear(1024, 1024) for _ in range(8)]


def test_half_precision_goes_to_disk_as_it_becomes_float32(tmp_path):
    """A checkpoint that fits in 16 bits, but not in 32: layer by layer."""
    layers = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(8))).bfloat16()
    layers[7].weight = layers[0].weight
    layers.register_buffer("scale", torch.ones(3, dtype=torch.bfloat16))
    expected = [layer.weight.float() for layer in layers]
    disk = WeightsOnDisk(tmp_path)
    with refusing_large_models(10 * MEGA, disk):
        (notice,) = take_as_float32(layers)
    assert notice == "the weights were bfloat16: they are taken as float32, which holds the same values"
    assert disk.bytes >= 6 * 4 * MEGA
    assert all(map(torch.equal, (layer.weight for layer in layers), expected))
    assert layers[7].weight is layers[0].weight
    assert layers.scale.dtype == torch.float32
    assert take_as_float32(layers) == []


def test_memory_is_given_back(tmp_path):
    def read_anonymous():
        gc.collect()
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))

    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not say what a process holds")
    model = nn.Linear(8192, 4096)
    before = read_anonymous()
    assert WeightsOnDisk(tmp_path).move(model.parameters()) == 128 * MEGA
    assert before - read_anonymous() > 120 * MEGA


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(800, 800), nn.ReLU(), nn.Linear(800, 10))

    def forward(self, x):
        return self.layers(x)


def answer(monkeypatch, *megabytes):
    """What the system says that it could give: while the model is made, afterwards, and with its weights on disk."""
    answers = iter(megabytes)
    monkeypatch.setattr(stage, "read_available_bytes", lambda: next(answers) * MEGA)
    return answers


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu", "onednn"])
def test_an_export_with_weights_on_disk_gives_the_same_files(target, tmp_path, monkeypatch):
    x = torch.rand(1, 800, generator=torch.Generator().manual_seed(0))
    expected = edgex.export_model(Net(), (x,), target=target, output=tmp_path / "memory")
    model = Net()
    unasked = answer(monkeypatch, 100, 1, 100)
    found = edgex.export_model(model, (x,), target=target, output=tmp_path / "disk")
    assert list(unasked) == []
    assert not is_in_memory(model.layers[0].weight)
    assert found.manifest.files == expected.manifest.files


def test_the_export_says_what_lies_on_disk(monkeypatch):
    def find():
        return wrap_model(nn.Linear(5000, 5000), (torch.rand(1, 5000),), {})

    settings = ExportSettings(targets=("xnnpack",))
    delegates = [get_delegate("xnnpack")]
    answer(monkeypatch, 500, 1, 500)
    source = stage.find_source(find, settings, delegates)
    assert source.notices[-1] == "memory would not hold this export: 0.1 GB of weights lie on disk meanwhile"
    answer(monkeypatch, 500, 500)
    source = stage.find_source(find, settings, delegates)
    assert not any("disk" in notice for notice in source.notices)
