"""`edgex doctor`: each check on an environment made up for it, and on the real one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgex.doctor.checks import CHECKS, Finding, examine
from edgex.doctor.environment import Environment, read_environment

GOOD = Environment(
    python=(3, 11, 7),
    packages={
        "torch": "2.13.0+cpu", "torchao": "0.18.0", "executorch": "1.5.1", "onnx": "1.23.2", "onnxscript": "0.7.2",
        "onnxruntime": "1.31.1", "numpy": "2.4.6", "onednn-cpu-gomp": "2023.2.0", "onednn-devel-cpu-gomp": "2023.2.0",
    },
    compiler="/usr/bin/c++",
    free_bytes=50 << 30,
)  # fmt: skip


def with_packages(**packages: str | None) -> Environment:
    changed = {**GOOD.packages, **{name.replace("_", "-"): version for name, version in packages.items()}}
    return replace(GOOD, packages={name: version for name, version in changed.items() if version is not None})


def findings(environment: Environment, check: str) -> list[Finding]:
    return [finding for finding in examine(environment) if finding.check == check and finding.status != "ok"]


def only(environment: Environment, check: str) -> Finding:
    others = [f for f in examine(environment) if f.status != "ok" and f.check != check]
    assert not others, others
    (finding,) = findings(environment, check)
    assert finding.fix
    return finding


def test_fake_good_environment_has_nothing_wrong() -> None:
    found = examine(GOOD)
    assert [finding.status for finding in found] == ["ok"] * len(CHECKS)
    assert all(finding.fix is None for finding in found)


@pytest.mark.parametrize("version", [(3, 10, 13), (3, 14, 0)])
def test_fake_wrong_python(version: tuple[int, int, int]) -> None:
    finding = only(replace(GOOD, python=version), "python")
    assert finding.status == "broken" and "3.11 to 3.13" in finding.text and "-m venv" in str(finding.fix)


def test_fake_other_python_than_cpython() -> None:
    assert only(replace(GOOD, implementation="PyPy"), "python").status == "broken"


def test_fake_windows() -> None:
    assert "WSL" in str(only(replace(GOOD, system="Windows"), "platform").fix)


def test_fake_no_virtual_environment() -> None:
    assert only(replace(GOOD, isolated=False), "isolation").status == "warning"


def test_fake_doubled_package() -> None:
    finding = only(replace(GOOD, doubled={"torch": ("2.13.0", "2.12.1")}), "doubled packages")
    assert finding.status == "broken" and "2.13.0, 2.12.1" in finding.text


def test_fake_clashing_onnxruntime_wheels() -> None:
    finding = only(with_packages(onnxruntime_migraphx="1.27.1"), "onnxruntime builds")
    assert finding.status == "broken" and "overwrites the other" in finding.text
    assert finding.fix == "pip uninstall -y onnxruntime onnxruntime-migraphx; pip install onnxruntime-migraphx"


@pytest.mark.parametrize(
    ("packages", "words"),
    [
        ({"torch": "2.12.1"}, "torch 2.12.1"),
        ({"torchao": "0.17.0"}, "torchao 0.17.0"),
        ({"torchao": None}, "torchao missing"),
        ({"executorch": "1.4.0"}, "in no tested set"),
    ],
)
def test_fake_mismatched_torch_torchao_executorch(packages: dict[str, str | None], words: str) -> None:
    finding = only(with_packages(**packages), "torch set")
    assert finding.status == "broken" and words in finding.text
    assert finding.fix == "pip install 'executorch==1.5.*' 'torch==2.13.*' 'torchao==0.18.*'"


def test_fake_package_outside_its_range() -> None:
    finding = only(with_packages(onnx="1.19.1"), "package versions")
    assert finding.status == "broken" and finding.fix == "pip install 'onnx>=1.20,<2'"


def test_fake_missing_compiler() -> None:
    finding = only(replace(GOOD, compiler=None), "compiler")
    assert finding.status == "broken" and "g++" in str(finding.fix)


def test_fake_missing_compiler_does_not_matter_without_onednn() -> None:
    environment = replace(with_packages(onednn_cpu_gomp=None, onednn_devel_cpu_gomp=None), compiler=None)
    assert not findings(environment, "compiler")


def test_fake_missing_and_mismatched_headers() -> None:
    assert "without its headers" in only(with_packages(onednn_devel_cpu_gomp=None), "compiler").text
    assert "its library is 2023.2.0" in only(with_packages(onednn_devel_cpu_gomp="2024.0.0"), "compiler").text


def test_fake_openmp_conflicts() -> None:
    assert "another OpenMP" in only(with_packages(onednn_cpu_iomp="2023.2.0"), "openmp").text
    assert "libiomp5.so" in only(replace(GOOD, preloaded=("libiomp5.so",)), "openmp").text
    assert only(replace(GOOD, variables={"KMP_DUPLICATE_LIB_OK": "TRUE"}), "openmp").status == "warning"
    assert only(replace(GOOD, variables={"OMP_NUM_THREADS": "all"}), "openmp").status == "broken"
    assert not findings(replace(GOOD, variables={"OMP_NUM_THREADS": "4,2"}), "openmp")


def test_fake_full_disk() -> None:
    assert only(replace(GOOD, free_bytes=1 << 20), "disk").status == "warning"
    assert not findings(replace(GOOD, free_bytes=None), "disk")


def test_real_environment_is_read() -> None:
    environment = read_environment()
    assert environment.packages["torch"].startswith("2.")
    assert environment.packages["onnxruntime"]
    assert not environment.doubled
    assert environment.free_bytes


def test_real_environment_is_healthy(edgex: Callable) -> None:
    done = edgex("doctor", "--json")
    document = json.loads(done.stdout)
    assert document["healthy"], [f for f in document["findings"] if f["status"] == "broken"]
    assert done.returncode == 0
    assert document["schema"] == "edgex.doctor/1"
    assert document["packages"]["torch"].startswith("2.")
    assert "nothing is broken" in edgex("doctor").stdout


def test_exit_7_with_fixes_when_something_is_broken(edgex: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    import edgex.doctor.environment as module

    broken = replace(GOOD, python=(3, 9, 0), compiler=None)
    monkeypatch.setattr(module, "read_environment", lambda: broken)
    done = edgex("doctor")
    assert done.returncode == 7
    assert done.stdout.count("fix:") == 2 and "2 broken" in done.stdout
    assert json.loads(edgex("doctor", "--json").stdout)["healthy"] is False


def test_real_metadata_of_two_versions_in_one_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("1.0", "2.0"):
        info = tmp_path / f"twice-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: twice\nVersion: {version}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert set(read_environment().doubled["twice"]) == {"1.0", "2.0"}


def test_where_no_target_works_something_is_broken(edgex: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgex.cli.environment import targets

    def without(checks: dict[str, bool]) -> None:
        entry = {
            "name": "xnnpack",
            "available": all(checks.values()),
            "runs": checks["engine"],
            "checks": [{"name": name, "passed": passed} for name, passed in checks.items()],
        }
        monkeypatch.setattr(targets, "describe_targets", lambda _isa=None: [entry])

    without({"exporter": False, "engine": False})
    done = edgex("doctor")
    assert done.returncode == 7 and "no target can be used" in done.stdout
    assert "nothing is broken" not in done.stdout and "pip install 'edgex-toolchain[xnnpack]'" in done.stdout
    without({"exporter": False, "engine": True})
    done = edgex("doctor")
    assert done.returncode == 0 and "artifacts of xnnpack run here; nothing can be exported" in done.stdout
    without({"exporter": True, "engine": True})
    assert "usable: xnnpack" in edgex("doctor").stdout
