"""The target aoti: a whole program compiled by TorchInductor, or refused with its line."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from aoti_support import OFFSET, counter, exported_counter, needs_aoti, random_rows
from torch import nn

import edgex
from edgex.delegates.aoti import delegate as module
from edgex.delegates.aoti.compilation import _settings, _stand_in, compile_package, find_compiler
from edgex.delegates.aoti.delegate import AotiDelegate, AotiOptions
from edgex.delegates.aoti.refusals import refuse_compilation
from edgex.errors import EdgexError, LoweringError
from edgex.export.capture.program import capture
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.engines.aoti.machine import INSTRUCTION_SETS
from edgex.runtime.engines.base import Availability
from edgex.runtime.engines.isa import missing_isa
from edgex.runtime.session.numerics import measure_sqnr_db

_LOOP = """\
#include <cstdio>
int main() {
  int used = 0;
  #pragma omp parallel num_threads(3)
  {
    #pragma omp atomic
    used++;
  }
  std::printf("%s %d", __FILE__, used);
}
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return exported_counter(tmp_path_factory)


@needs_aoti
def test_it_is_proved_with_state_and_every_batch(exported: Path) -> None:
    manifest = open_artifact(exported).manifest
    assert manifest.status == "verified" and manifest.engine == "aoti"
    assert manifest.delegation["fraction"] == 1.0 and manifest.delegation["delegate_calls"] == 1
    eager = counter()
    with edgex.load(exported, threads=1) as session:
        assert session.executed_on == "aoti: CPU" and session.threads == 1
        for rows in (5, 1, 8):
            wanted = eager(random_rows(rows), OFFSET)
            total, best, again = session.run(random_rows(rows), OFFSET)
            sqnr_db = measure_sqnr_db(wanted["sum"].detach().numpy(), total)
            assert sqnr_db > 100, f"{rows} rows: {sqnr_db:.1f} dB"
            np.testing.assert_array_equal(best, wanted["best"])
            np.testing.assert_array_equal(again, total)
        kept = session.read_state()
        np.testing.assert_allclose(kept["total"], eager.total.detach().numpy(), rtol=1e-4, atol=1e-5)
        once = session.run(random_rows(2), OFFSET)[0]
        session.write_state(kept)
        np.testing.assert_array_equal(session.run(random_rows(2), OFFSET)[0], once)


@needs_aoti
def test_the_package_says_what_processor_it_is_for_and_names_no_place_of_this_machine(exported: Path) -> None:
    required = open_artifact(exported).manifest.requirements
    assert {"avx2", "fma"} <= set(required.isa) and not missing_isa(required.isa)
    assert required.minimum_version == ".".join(torch.__version__.split(".")[:2])
    package = (exported / "model.pt2").read_bytes()
    for place in (Path(torch.__file__).parent, Path.cwd(), exported.parent.parent, Path.home(), Path(sys.prefix)):
        assert str(place).encode() not in package, place
    assert b"edgex-aoti" not in package and b".cpp" not in package.partition(b"\x7fELF")[0]


@needs_aoti
@pytest.mark.slow
@pytest.mark.parametrize("isa", INSTRUCTION_SETS)
def test_equal_programs_have_equal_packages(isa: str) -> None:
    if missing_isa(INSTRUCTION_SETS[isa]):
        pytest.skip("nothing of this instruction set runs here")
    program = capture(nn.Linear(8, 3), (torch.randn(2, 8),), source_root=Path(__file__).parent).program.exported
    one, two = (compile_package(program, str(find_compiler()), isa) for _ in range(2))
    assert one == two


@needs_aoti
@pytest.mark.slow
def test_bf16_with_state_and_narrow_vectors(tmp_path: Path) -> None:
    artifact = edgex.export_model(
        counter(), (random_rows(3), OFFSET), target="aoti", output=tmp_path, precision="bf16", options={"isa": "avx2"}
    )
    assert artifact.manifest.status == "verified" and artifact.manifest.options == {"isa": "avx2"}
    assert not any("avx512" in name for name in artifact.manifest.requirements.isa)


@needs_aoti
def test_an_operator_of_another_library_is_named_with_its_line(tmp_path: Path) -> None:
    @torch.library.custom_op("edgex_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)

    class Odd(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return twice(torch.relu(x))

    with pytest.raises(LoweringError, match=r"edgex_tests\.twice") as caught:
        edgex.export_model(Odd(), (torch.rand(4),), target="aoti", output=tmp_path)
    assert "test_aoti.py:" in str(caught.value.where) and "the library that defines it" in str(caught.value.why)


def test_what_the_compilers_fail_on_is_told_with_the_users_line() -> None:
    """Their messages, as they are raised: nothing is known to fail that would stay so."""

    class Plain(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.erfinv(torch.relu(x))

    captured = capture(Plain(), (torch.rand(4),), source_root=Path(__file__).parent).program
    inner = "LoweringException: NotImplementedError: no float\n  target: aten.erfinv.default\n  args[0]: TensorBox()"
    error = refuse_compilation(RuntimeError(inner), captured.exported, captured.source_root)
    assert "does not compile this model: aten.erfinv.default" in error.what
    assert str(error.where).startswith("test_aoti.py:") and "no float" in str(error.why)
    cpp = "C++ compile error\n\nCommand:\ng++ model.cpp\n\nOutput:\nmodel.cpp:7:1: error: expected ';'\nmore"
    assert refuse_compilation(RuntimeError(cpp), captured.exported, captured.source_root).why == (
        "model.cpp:7:1: error: expected ';'"
    )


@needs_aoti
def test_precisions_recipes_and_instruction_sets_that_it_lacks(tmp_path: Path) -> None:
    for changes, words in (
        ({"precision": "fp16"}, "fp32 and bf16"),
        ({"quantize": "int8"}, "use -t onnx-cpu or -t xnnpack"),
        ({"options": {"isa": "avx1024"}}, "isa=avx1024 is unknown"),
    ):
        with pytest.raises(EdgexError) as caught:
            edgex.export_model(nn.Linear(2, 2), (torch.randn(1, 2),), target="aoti", output=tmp_path, **changes)
        assert words in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_fake_machines_without_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_compiler", lambda: None)
    monkeypatch.setattr(module, "check_machine", lambda: Availability(True))
    found = AotiDelegate().availability()
    assert not found.available and found.fix == "sudo apt install g++"
    monkeypatch.setattr(module, "missing_isa", lambda needed: [name for name in needed if "512" in name])
    assert "the processor lacks avx512f" in str(AotiDelegate().options_refusal(AotiOptions("avx512"), "fp32", None))
    assert AotiDelegate().options_refusal(AotiOptions("avx2"), "fp32", None) is None


@needs_aoti
def test_what_edgex_calls_of_torchinductor_is_where_it_was() -> None:
    """An upgrade that moves one fails here, by its name, and not in somebody's export."""
    from torch._inductor import aot_compile, config
    from torch._inductor.package.package import package_aoti

    assert "options" in inspect.signature(aot_compile).parameters and callable(package_aoti)
    known = config.get_config_copy()
    assert not _settings(Path("g++"), "avx2").keys() - known.keys()
    from torch._C._aoti import AOTIModelPackageLoader

    assert callable(AOTIModelPackageLoader.boxed_run)


@needs_aoti
def test_the_stand_in_hides_folders_and_leaves_threads_to_the_session(tmp_path: Path) -> None:
    """Under the compiler's own name, and with a blank in the name of a folder."""
    folder = tmp_path / "a place"
    folder.mkdir()
    compiler = str(find_compiler())
    stand_in = _stand_in(compiler, folder)
    assert stand_in.name == Path(compiler).name
    (folder / "place.cpp").write_text(_LOOP)
    subprocess.run([stand_in, "-fopenmp", folder / "place.cpp", "-o", folder / "place"], check=True)
    assert str(folder).encode() not in (folder / "place").read_bytes()
    for threads, used in (("1", "1"), ("2", "2"), ("9", "3")):
        done = subprocess.run(
            [folder / "place"], env={"OMP_NUM_THREADS": threads}, check=True, capture_output=True, text=True
        )
        assert done.stdout.split() == ["./place.cpp", used]
