"""`--sizes`: one method for each of some fixed sizes, weights once, and the session that finds the size."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from model_support import run_edgex
from sized_models import make_reader, make_text
from torch import nn

import edgex
from edgex.delegates.registry import get_delegate
from edgex.errors import ArtifactError, LoweringError, RunError, UsageError
from edgex.export.methods.refusals import refuse_targets
from edgex.export.methods.sizes import MOST, Sizes, parse_sizes, split_by_size
from edgex.export.source.source import wrap_model
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.artifact.manifest import parse_manifest
from edgex.runtime.session.numerics import measure_sqnr_db

SIZES = ("ids:1=L=6,12", "mask:1=L")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    folder = tmp_path_factory.mktemp("sizes")
    return edgex.export_model(make_reader(), make_text(9), target="onnx-cpu", output=folder, sizes=SIZES)


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["x:0=1,4"], (Sizes("x_0", (1, 4), (("x", 0),)),)),
        (["xs.0:2=8"], (Sizes("xs_0_2", (8,), (("xs.0", 2),)),)),
        (["ids:1=L=6, 12", "mask:1=L"], (Sizes("L", (6, 12), (("ids", 1), ("mask", 1))),)),
        (["mask:1=L", "ids:1=L=6"], (Sizes("L", (6,), (("mask", 1), ("ids", 1))),)),
    ],
)
def test_what_the_flag_says(texts: list[str], found: tuple[Sizes, ...]) -> None:
    assert parse_sizes(texts) == found


@pytest.mark.parametrize(
    ("texts", "what"),
    [
        (["x=1,4"], "expected input:axis="),
        (["x:0="], "expected input:axis="),
        (["x:0=1..4"], "expected input:axis="),
        (["x:0=1,1"], "sizes are different"),
        (["x:0=0,1"], "sizes are different"),
        (["x:0=1", "x:0=2"], "given twice"),
        (["x:0=L=1", "y:0=L=2"], "other sizes elsewhere"),
        (["x:0=L"], "L has no sizes"),
        ([f"x:0={','.join(map(str, range(1, 8)))}", f"y:0={','.join(map(str, range(1, 8)))}"], str(MOST)),
    ],
)
def test_what_it_cannot_say(texts: list[str], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        parse_sizes(texts)


def test_every_combination_is_a_method_with_an_example_of_its_size() -> None:
    source = wrap_model(nn.Identity(), (torch.arange(6).view(2, 3),), {})
    methods = split_by_size(source, parse_sizes(["input:0=1,3", "input:1=W=2,5"]))
    found = [(m.method, m.args[0].shape) for m in (methods, *methods.others)]
    assert found == [
        ("input_0_1_W_2", (1, 2)),
        ("input_0_1_W_5", (1, 5)),
        ("input_0_3_W_2", (3, 2)),
        ("input_0_3_W_5", (3, 5)),
    ]
    assert methods.others[2].args[0].tolist() == [[0, 1, 2, 0, 1], [3, 4, 5, 3, 4], [0, 1, 2, 0, 1]]
    with pytest.raises(UsageError, match="no such input"):
        split_by_size(source, parse_sizes(["x:0=1"]))
    with pytest.raises(UsageError, match="has 2 dimensions"):
        split_by_size(source, parse_sizes(["input:2=1"]))


def test_a_session_takes_the_method_of_its_inputs_size(exported: Artifact) -> None:
    model = make_reader()
    with edgex.load(exported.path) as session:
        assert session.methods == ("L_6", "L_12")
        for length in (12, 6, 12):
            inputs = make_text(length, seed=length)
            wanted = model(*inputs).detach().numpy()
            for found in (session(*inputs), session({"mask": inputs[1], "ids": inputs[0].numpy()})):
                ratio = measure_sqnr_db(wanted, found[0])
                assert ratio > 100, f"length {length}: {ratio:.1f} dB"
        with pytest.raises(RunError, match=r"no method for these sizes: ids \[1, 9\], mask \[1, 9\]") as raised:
            session(*make_text(9))
        assert "ids [1, 6], mask [1, 6]; or ids [1, 12]" in (raised.value.why or "")
        with pytest.raises(RunError, match="no method for these sizes"):
            session(make_text(6)[0], make_text(12)[1])
        with pytest.raises(RunError, match="missing input: mask"):
            session(make_text(12)[0])
        with pytest.raises(RunError, match="the artifact takes ids: int64"):
            session.method("L_12")(*make_text(6))
    with edgex.load(exported.path, method="L_12") as session, pytest.raises(RunError, match="dimension 1 is fixed"):
        session(*make_text(6))


def test_weights_are_in_the_artifact_once_and_every_size_is_proved(exported: Artifact) -> None:
    sizes = {path.name: path.stat().st_size for path in exported.path.glob("*.onnx*")}
    parameters = sum(p.numel() for p in make_reader().parameters()) * 4
    assert set(sizes) == {"L_6.onnx", "L_12.onnx", "model.onnx.data"}
    assert sum(sizes.values()) < parameters + 40_000 and sizes["model.onnx.data"] > parameters - 8_000
    verification = exported.manifest.verification
    assert verification is not None
    assert {case["method"] for case in verification["cases"]} == {"L_6", "L_12"}
    assert edgex.verify(exported.path).passed


def test_edgex_run_takes_the_method_of_the_files_size(exported: Artifact, tmp_path: Path) -> None:
    ids, mask = (tensor.numpy() for tensor in make_text(12))
    np.savez(tmp_path / "in.npz", ids=ids, mask=mask)
    np.savez(tmp_path / "wrong.npz", ids=ids[:, :5], mask=mask[:, :5])
    done = run_edgex("run", str(exported.path), "-i", str(tmp_path / "in.npz"), "--json", cwd=tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)["outputs"][0]["shape"] == [1, 30], done.stderr
    done = run_edgex("run", str(exported.path), "-i", str(tmp_path / "wrong.npz"), cwd=tmp_path)
    assert done.returncode == 6 and "no method for these sizes" in done.stderr and "--sizes" in done.stderr


def test_a_manifest_whose_sizes_do_not_tell_methods_apart_is_damaged(exported: Artifact) -> None:
    manifest = exported.manifest
    assert manifest.by_size and parse_manifest(manifest.dumps(), "here") == replace(manifest, edited=False)
    first, second = manifest.methods
    same = replace(manifest, methods=(first, replace(second, inputs=first.inputs)))
    other = replace(manifest, methods=(first, replace(second, inputs=second.inputs[:1])))
    for wrong, why in ((same, "the same sizes"), (other, "takes other inputs")):
        with pytest.raises(ArtifactError) as raised:
            parse_manifest(wrong.dumps(), "here")
        assert why in (raised.value.why or "")


def test_ranges_are_those_of_the_datas_size(tmp_path: Path) -> None:
    """Weights and biases are the same bytes at both sizes, though the data has one of them only."""
    model, data = make_reader(), [make_text(12, seed) for seed in range(9)]
    artifact = edgex.export_model(
        model, make_text(9), target="onnx-cpu", quantize="int8", calibration=data, output=tmp_path, sizes=SIZES
    )
    quantization = artifact.manifest.quantization
    assert quantization is not None and quantization["calibration"]["samples"] == 9
    with edgex.load(artifact.path) as session:
        for length in (6, 12):
            inputs = make_text(length, seed=length)
            ratio = measure_sqnr_db(model(*inputs).detach().numpy(), session(*inputs)[0])
            assert ratio > 20, f"length {length}: {ratio:.1f} dB"
    with pytest.raises(UsageError, match="the calibration data has none of the sizes"):
        edgex.export_model(
            model, make_text(9), target="onnx-cpu", quantize="int8", calibration=[make_text(7)], sizes=SIZES
        )


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum())
        return x + self.total


def test_state_is_one_for_all_sizes(tmp_path: Path) -> None:
    x = torch.randn(2, generator=torch.Generator().manual_seed(0))
    artifact = edgex.export_model(Counting(), (x,), target="onnx-cpu", sizes=["x:0=2,3"], output=tmp_path)
    assert {spec.name for method in artifact.manifest.methods for spec in method.state} == {"total"}
    with edgex.load(artifact.path) as session:
        assert session(np.ones(2, np.float32))[0].tolist() == [3.0, 3.0]
        assert session(np.ones(3, np.float32))[0].tolist() == [6.0, 6.0, 6.0]


def test_what_does_not_go_with_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\nmodel = torch.nn.Linear(3, 3)\nexample_inputs = (torch.ones(1, 3),)\n"
    )
    for flag in (["--dynamic", "input:0=1..4"], ["--max-drop", "1%", "--quantize", "int8"], ["--skip-case", "example"]):
        done = run_edgex("export", "net.py", "-t", "onnx-cpu", "--sizes", "input:0=1,4", *flag, cwd=tmp_path)
        assert done.returncode == 2 and f"{flag[0]} does not go with --sizes" in done.stderr, done.stderr
    source = split_by_size(wrap_model(nn.Identity(), (torch.ones(2),), {}), parse_sizes(["input:0=2,3"]))
    with pytest.raises(LoweringError, match="one method") as raised:
        refuse_targets(source, [get_delegate("openvino")])
    assert all(word in str(raised.value.fix) for word in ("--dynamic", "xnnpack, onnx-cpu, onednn", "onnx-qnn"))
