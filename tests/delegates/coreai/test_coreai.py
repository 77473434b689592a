"""The target coreai: what coreai-torch converts is proved on Core AI's runtime, the rest refused with its line."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from coreai_support import needs_coreai
from torch import nn

import edgex
from edgex.delegates.coreai import conversion
from edgex.errors import LoweringError, QuantizationError, RunError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.session.numerics import measure_sqnr_db

pytestmark = needs_coreai


class Counter(nn.Module):
    """State that is carried, a dynamic batch, integers in and out."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 4)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor, offset: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.linear(x)
        self.total.add_(y.sum(0))
        total = y + self.total
        return {"sum": total, "best": y.argmax(-1) + offset, "again": total}


OFFSET = torch.tensor([7])


def random_rows(rows: int) -> torch.Tensor:
    return torch.randn(rows, 6, generator=torch.Generator().manual_seed(3))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("coreai")
    shapes = {"x": {0: torch.export.Dim("batch", min=1, max=8)}, "offset": None}
    artifact = edgex.export_model(
        Counter(), (random_rows(3), OFFSET), target="coreai", output=folder, dynamic_shapes=shapes, name="net"
    )
    return artifact.path


def test_it_is_proved_with_state_and_every_batch(exported: Path) -> None:
    artifact = open_artifact(exported)
    assert artifact.manifest.status == "verified" and artifact.manifest.engine == "coreai"
    torch.manual_seed(0)
    eager = Counter()
    with edgex.load(exported) as session:
        assert session.executed_on == "coreai: CPU" and session.threads is None
        for rows in (5, 1, 8):
            wanted = eager(random_rows(rows), OFFSET)
            total, best, again = session.run(random_rows(rows), OFFSET)
            sqnr_db = measure_sqnr_db(wanted["sum"].detach().numpy(), total)
            assert sqnr_db > 100, f"{rows} rows: {sqnr_db:.1f} dB"
            np.testing.assert_array_equal(best, wanted["best"])
            np.testing.assert_array_equal(again, total)
            assert best.dtype == np.int64


def test_an_integer_beyond_32_bits_is_refused(exported: Path) -> None:
    with edgex.load(exported) as session, pytest.raises(RunError, match="input offset holds integers beyond 32 bits"):
        session.run(random_rows(2), torch.tensor([2**31]))


def test_fp16_halves_the_file(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = []
    for precision in ("fp32", "fp16"):
        artifact = edgex.export_model(
            nn.Linear(64, 64), (torch.randn(1, 64),), target="coreai", output=tmp_path / precision, precision=precision
        )
        assert artifact.manifest.status == "verified"
        sizes.append(artifact.file(".mlirb").stat().st_size)
    assert sizes[0] - sizes[1] > 2 * 64 * 60, sizes


def test_the_file_has_no_date_and_names_no_place_of_this_machine(exported: Path) -> None:
    metadata = json.loads(next(exported.rglob("metadata.json")).read_text())
    assert metadata.keys() == {"assetVersion", "producer"}
    for path in (path for path in exported.rglob("*") if path.is_file()):
        content = path.read_bytes()
        assert str(Path.cwd()).encode() not in content and str(Path(torch.__file__).parent).encode() not in content


def test_what_is_not_converted_is_named_with_its_line(tmp_path: Path) -> None:
    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.qr(torch.relu(x))[1]

    with pytest.raises(LoweringError, match=r"aten\.linalg_qr\.default") as caught:
        edgex.export_model(Odd(), (torch.rand(3, 3),), target="coreai", output=tmp_path)
    assert "test_coreai.py:" in str(caught.value.where) and "no conversion" in str(caught.value.why)


def test_precisions_and_recipes_that_it_lacks(tmp_path: Path) -> None:
    for changes, words in (({"precision": "bf16"}, "fp32 and fp16"), ({"quantize": "int8"}, "takes no recipe")):
        with pytest.raises((LoweringError, QuantizationError)) as caught:
            edgex.export_model(nn.Linear(2, 2), (torch.randn(1, 2),), target="coreai", output=tmp_path, **changes)
        assert words in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_what_edgex_calls_of_the_beta_is_where_it_was() -> None:
    """An upgrade that moves one fails here, by its name, and not in somebody's export."""
    with conversion.quiet():
        from coreai.authoring.asset import AIModelAsset
        from coreai_torch import TorchConverter, get_decomp_table
        from coreai_torch._aten_to_core import _aten_to_core_resolver, _higher_order_resolver

    assert {"add.Tensor", "convolution.default", "getitem", "mul"} <= _aten_to_core_resolver.keys()
    assert "cond" in _higher_order_resolver and torch.ops.aten.silu.default not in get_decomp_table()
    wanted = {"input_names", "output_names", "entrypoint_name"}
    assert wanted <= inspect.signature(TorchConverter.add_exported_program).parameters.keys()
    assert TorchConverter.Mode.RELEASE and callable(AIModelAsset.load) and callable(AIModelAsset.executable)
