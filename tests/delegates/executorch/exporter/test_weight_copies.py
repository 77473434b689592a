"""What lowering holds of the weights: none of their copies, and the same file."""

from __future__ import annotations

import gc
import hashlib
from pathlib import Path

import pytest
import torch
from torch import nn

from edgex.delegates.executorch.exporter import weight_copies
from edgex.delegates.executorch.exporter.weight_copies import WeightFiles, copy_graph, weights_shared
from edgex.delegates.registry import get_delegate
from edgex.export.capture.program import capture
from edgex.runtime.support.disk import scratch


def make_program(source_root):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 8)).eval()
    return capture(model, (torch.randn(1, 512),), {}, dynamic_shapes=None, source_root=source_root).program


def test_a_copy_of_a_program_has_its_weights_and_a_graph_of_its_own(tmp_path):
    exported = make_program(tmp_path).exported
    fused = torch.arange(12.0).reshape(6, 2)
    exported.constants["part"] = fused[2:4]
    copied = copy_graph(exported)
    for name, tensor in exported.state_dict.items():
        assert copied.state_dict[name] is tensor
    # Of a view, backends would write the memory that it is a part of.
    part = copied.constants["part"]
    assert part is not exported.constants["part"] and torch.equal(part, fused[2:4])
    assert part.untyped_storage().nbytes() == 16
    assert copied.graph is not exported.graph and len(copied.graph.nodes) == len(exported.graph.nodes)
    copied.state_dict.clear()
    assert len(exported.state_dict) == 4


def test_executorch_still_asks_where_copies_are_made():
    """Fails clearly when an upgrade moves what is replaced."""
    from executorch.exir._serialize._cord import FileBackedData
    from executorch.exir._serialize._named_data_store import NamedDataStore
    from executorch.exir.backend.backend_details import BackendDetails

    assert "copy_exported_program_for_preprocess" in BackendDetails.__dict__
    before = BackendDetails.__dict__["copy_exported_program_for_preprocess"]
    with weights_shared():
        assert BackendDetails.__dict__["copy_exported_program_for_preprocess"] is not before
    assert BackendDetails.__dict__["copy_exported_program_for_preprocess"] is before
    assert callable(NamedDataStore.add_named_data) and hasattr(FileBackedData, "to_bytes")


@pytest.fixture
def folders(monkeypatch, tmp_path):
    """Where temporary files go."""
    monkeypatch.setattr(scratch.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def lower(tmp_path, name):
    delegate = get_delegate("xnnpack")
    lowered = delegate.lower(make_program(tmp_path), delegate.options_type())
    files = list(tmp_path.glob("edgex-weights-*/*.bin"))
    folder = tmp_path / name
    folder.mkdir()
    lowered.write(folder)
    return hashlib.sha256((folder / "model.pte").read_bytes()).hexdigest(), len(files), lowered


def test_large_weights_lie_in_files_until_the_program_is_written_and_its_bytes_are_the_same(folders, monkeypatch):
    on_disk, count, lowered = lower(folders, "a")
    assert count == 1  # 2 MB; the others are small
    del lowered
    gc.collect()
    assert not list(folders.glob("edgex-weights-*"))
    monkeypatch.setattr(weight_copies, "_LARGE_BYTES", 1 << 40)
    assert lower(folders, "b")[:2] == (on_disk, 0)


def test_without_room_on_disk_weights_stay_in_memory_and_the_file_is_the_same(folders, monkeypatch):
    expected = lower(folders, "a")[0]
    gc.collect()
    write = Path.write_bytes

    def fill_up(path, data):
        if not path.parent.name.startswith("edgex-weights-"):
            return write(path, data)
        write(path, data[:100])
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill_up)
    assert lower(folders, "b")[:2] == (expected, 0)


def test_nothing_is_left_where_lowering_fails(folders):
    files = WeightFiles()
    with pytest.raises(RuntimeError, match="a backend's own"), files.collecting():
        from executorch.exir._serialize._named_data_store import NamedDataStore

        store = NamedDataStore()
        store.add_named_data("key", bytes(weight_copies._LARGE_BYTES))
        assert list(folders.glob("edgex-weights-*/*.bin"))
        raise RuntimeError("a backend's own")
    assert not list(folders.glob("edgex-weights-*"))
