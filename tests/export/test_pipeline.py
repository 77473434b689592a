"""The flow over several targets."""

import gc

from edgex.delegates.onnxruntime.cpu import OnnxCpuDelegate

MODEL = """
import torch

model, example_inputs = torch.nn.Linear(4, 3).eval(), (torch.randn(2, 4),)
"""


def test_a_defect_in_one_target_keeps_no_other_from_being_exported(edgex, tmp_path, monkeypatch):
    def lower(*_):
        raise KeyError("a defect")

    (tmp_path / "tiny.py").write_text(MODEL)
    monkeypatch.setattr(OnnxCpuDelegate, "lower", lower)
    done = edgex("export", "tiny.py", "-t", "onnx-cpu,reference")
    assert done.returncode == 1 and 'raise KeyError("a defect")' in done.stderr, done.stderr
    assert (tmp_path / "tiny.reference.edgex").is_dir()
    assert not (tmp_path / "tiny.onnx-cpu.edgex").exists()


def test_the_collector_looks_at_everything_again_when_a_target_is_done(edgex, tmp_path):
    (tmp_path / "tiny.py").write_text(MODEL)
    assert gc.get_freeze_count() == 0
    done = edgex("export", "tiny.py", "-t", "reference")
    assert done.returncode == 0, done.stderr
    assert gc.get_freeze_count() == 0
