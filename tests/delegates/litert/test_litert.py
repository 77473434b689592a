"""The target litert: what litert-torch converts is proved on LiteRT, what it does not is refused with its line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from litert_support import needs_litert
from torch import nn

import edgex
from edgex.delegates.litert import conversion
from edgex.delegates.litert.delegate import LiteRtOptions
from edgex.delegates.registry import get_delegate
from edgex.errors import LoweringError, QuantizationError
from edgex.export.capture.program import capture
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.engines.litert.binding import list_operators, open_interpreter
from edgex.runtime.session.numerics import measure_sqnr_db

pytestmark = needs_litert


class Counter(nn.Module):
    """State that is carried, an integer beyond 32 bits, an input that is not read, and one output twice."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor, ids: torch.Tensor, unread: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.linear(x)
        self.total.add_(y.sum(0))
        return {"total": y + self.total, "ids": ids + 1, "y": y, "again": y}


ARGUMENTS = torch.randn(3, 6, generator=torch.Generator().manual_seed(3)), torch.tensor([2**40, 7]), torch.ones(2)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("litert")
    return edgex.export_model(Counter(), ARGUMENTS, target="litert", output=folder, name="net").path


def test_it_is_proved_with_state_and_integers_of_64_bits(exported: Path) -> None:
    artifact = open_artifact(exported)
    assert artifact.manifest.status == "verified" and artifact.manifest.engine == "litert"
    torch.manual_seed(0)
    eager = Counter()
    with edgex.load(exported, threads=1) as session:
        assert session.executed_on == "litert: XNNPACK" and session.threads == 1
        for _ in range(2):
            wanted = eager(*ARGUMENTS)
            found = dict(zip(wanted, session.run(*ARGUMENTS), strict=True))
            for name in ("total", "y", "again"):
                sqnr_db = measure_sqnr_db(wanted[name].detach().numpy(), found[name])
                assert sqnr_db > 100, f"{name}: {sqnr_db:.1f} dB"
            np.testing.assert_array_equal(found["ids"], [2**40 + 1, 8])
            assert found["ids"].dtype == np.int64


def test_a_profile_without_operators_says_so(exported: Path) -> None:
    with edgex.load(exported, threads=1) as session:
        report = edgex.profile(session, warmup=2, runs=6, fresh_processes=1)
    assert report.trace is None and not report.ops and report.steady.median > 0


def test_the_artifact_names_no_place_of_this_machine(exported: Path) -> None:
    for path in (path for path in exported.rglob("*") if path.is_file()):
        content = path.read_bytes()
        assert str(Path.cwd()).encode() not in content and str(Path(torch.__file__).parent).encode() not in content


def test_sorts_become_the_runtimes_top_k(tmp_path: Path) -> None:
    class Sorts(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return *torch.sort(x, -1), x.topk(3).values

    artifact = edgex.export_model(Sorts(), (torch.randn(2, 9),), target="litert", output=tmp_path, name="net")
    assert artifact.manifest.status == "verified"


def test_int8_is_stored_and_computed_in_bytes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3)).eval()
    data = [(torch.randn(1, 3, 8, 8),) for _ in range(8)]
    artifact = edgex.export_model(
        module, data[0], target="litert", output=tmp_path, quantize="int8", calibration=data, name="net"
    )
    weights = sum(parameter.numel() for parameter in module.parameters())
    assert artifact.file(".tflite").stat().st_size < 1.5 * weights
    interpreter = open_interpreter(artifact.file(".tflite"), 1)
    interpreter.allocate_tensors()
    # Nothing between the first conversion to bytes and the last one back.
    assert {*list_operators(interpreter)} == {"QUANTIZE", "TRANSPOSE", "CONV_2D", "DEQUANTIZE", "DELEGATE"}


def test_what_is_not_converted_is_named_with_its_line(tmp_path: Path) -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.qr(torch.relu(x))[1]

    with pytest.raises(LoweringError, match=r"aten\.linalg_qr\.default") as caught:
        edgex.export_model(Odd(), (torch.rand(3, 3),), target="litert", output=tmp_path)
    assert "test_litert.py:" in str(caught.value.where) and "no lowering" in str(caught.value.why)


def test_what_the_converter_fails_on_is_named_with_its_line() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.ConvTranspose2d(2, 2, 3, stride=2, dilation=2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.up(torch.relu(x))

    # `fill_dilation` writes it otherwise; here it comes as it is.
    captured = capture(Odd(), (torch.rand(1, 2, 4, 4),), source_root=Path(__file__).parent)
    with pytest.raises(LoweringError, match=r"fails to convert aten\.convolution\.default") as caught:
        get_delegate("litert").lower(captured.program, LiteRtOptions())
    assert "test_litert.py:" in str(caught.value.where) and "failed to legalize" in str(caught.value.why)


def test_dynamic_sizes_are_refused_with_the_thread_and_the_way_on(tmp_path: Path) -> None:
    shapes = {"input": {0: torch.export.Dim("batch", min=1, max=8)}}
    with pytest.raises(LoweringError, match="fixed sizes") as caught:
        edgex.export_model(
            nn.Linear(6, 2), (torch.rand(3, 6),), target="litert", output=tmp_path, dynamic_shapes=shapes
        )
    assert "litert-torch issue #870" in str(caught.value.why) and "batch=1..8" in str(caught.value.why)
    assert "--sizes input:0=1,8" in str(caught.value.fix)


def test_precisions_and_recipes_that_it_lacks(tmp_path: Path) -> None:
    for changes, words in (({"precision": "fp16"}, "compute in float32"), ({"quantize": "8da4w"}, "int8")):
        with pytest.raises((LoweringError, QuantizationError), match=words):
            edgex.export_model(nn.Linear(2, 2), (torch.randn(1, 2),), target="litert", output=tmp_path, **changes)
    assert not list(tmp_path.iterdir())


def test_the_parts_of_litert_torch_that_are_called_are_where_they_were() -> None:
    """An upgrade that moves one fails here, by its name, and not in somebody's export."""
    with conversion.quiet():
        from litert_torch import fx_infra
        from litert_torch._convert import core, litert_converter
        from litert_torch.backend import lowerings

    assert callable(core._run_convert_passes) and callable(litert_converter.exported_programs_to_flatbuffer)
    assert callable(fx_infra.safe_run_decompositions) and fx_infra.decomp.pre_convert_decomp()
    assert lowerings.lookup(torch.ops.aten.mm.default) and not lowerings.lookup(torch.ops.aten.erfinv.default)
