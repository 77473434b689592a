"""Finding an AMD GPU, check by check, on made-up machines and on this one."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgex.errors import RunError
from edgex.runtime.engines.checks import first_failure
from edgex.runtime.engines.rocm.detection import Machine, detect, gfx_name

GPU = "cpu_cores_count 0\nsimd_count 304\ngfx_target_version 90402\n"
CPU = "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\n"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine on which every check holds."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    for number, properties in enumerate((CPU, GPU)):
        folder = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{number}"
        folder.mkdir(parents=True)
        (folder / "properties").write_text(properties)
    programs, capi = tmp_path / "opt/rocm/bin", tmp_path / "capi"
    for folder in (programs, capi):
        folder.mkdir(parents=True)
    (programs / "rocminfo").touch()
    (capi / "libonnxruntime_providers_migraphx.so").touch()
    return Machine(tmp_path, path="", run=rocminfo(), ask=probe(), capi=capi)


Answer = tuple[int, str]


def rocminfo(answer: Answer = (0, "Name: gfx942")) -> Callable:
    return lambda command: answer


def probe(load: str | None = None, session: str | None = None) -> Callable:
    """Answers as the process that tries a library does; texts are what it says against it."""

    def ask(request):
        refusal = load if request["do"] == "load" else session
        if refusal is not None:
            raise RunError(refusal)
        return {"provider": "MIGraphXExecutionProvider"}

    return ask


def failing(machine: Machine) -> tuple[str, str, str]:
    check = first_failure(detect(machine))
    assert check is not None and check.fix
    return check.name, check.detail, check.fix


def test_every_check_holds(machine: Machine) -> None:
    checks = detect(machine)
    assert [(check.name, check.passed) for check in checks] == [
        (name, True) for name in ("device node", "topology", "rocminfo", "library", "session")
    ]
    assert "gfx942" in checks[1].detail and "gfx942" in checks[2].detail
    assert checks[4].detail == "a tiny model ran on MIGraphXExecutionProvider"


def test_no_device_node(machine: Machine) -> None:
    (machine.root / "dev/kfd").unlink()
    assert failing(machine)[:1] == ("device node",)
    checks = detect(machine)
    assert [check.passed for check in checks] == [False, True, True, True, None], (
        "the others are looked at all the same"
    )


def test_permission_denied_on_the_device_node(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: "kfd" not in str(path))
    name, detail, fix = failing(machine)
    assert name == "device node" and "permission denied" in detail and "usermod -aG render" in fix


def test_a_processor_of_amd_is_no_gpu(machine: Machine) -> None:
    (machine.root / "sys/class/kfd/kfd/topology/nodes/1/properties").write_text(CPU)
    name, detail, _ = failing(machine)
    assert name == "topology" and "no GPU" in detail


def test_rocminfo_missing_failing_and_naming_only_a_processor(machine: Machine) -> None:
    denied = (1, "Unable to open /dev/kfd read-write: Permission denied\n")
    assert "Permission denied" in failing(replace(machine, run=rocminfo(denied)))[1]
    assert failing(replace(machine, run=rocminfo((0, "Name: gfx000"))))[0] == "rocminfo"
    (machine.root / "opt/rocm/bin/rocminfo").unlink()
    assert "not installed" in failing(machine)[1]


def test_device_present_but_library_missing(machine: Machine) -> None:
    name, detail, fix = failing(replace(machine, capi=machine.root))
    assert name == "library" and "no MIGraphX provider" in detail and "docs/reference/targets/onnx-rocm.md" in fix
    name, detail, fix = failing(replace(machine, library=machine.root / "libplugin.so"))
    assert (name, detail) == ("library", "libplugin.so does not exist") and "EDGEX_MIGRAPHX_LIBRARY" in fix


def test_library_present_that_does_not_load(machine: Machine) -> None:
    missing = "OSError: libmigraphx_c.so.3: cannot open shared object file: No such file or directory"
    name, detail, fix = failing(replace(machine, ask=probe(load=missing)))
    assert name == "library" and "libmigraphx_c.so.3" in detail and fix.startswith("ldd ")


def test_a_session_that_does_not_run(machine: Machine) -> None:
    refused = "MIGraphXExecutionProvider is there, but no GPU for it: it offers CPU"
    name, detail, _ = failing(replace(machine, ask=probe(session=refused)))
    assert name == "session" and "no GPU for it" in detail


def test_here_the_checks_are_true_of_this_machine() -> None:
    checks = detect()
    assert [check.name for check in checks] == ["device node", "topology", "rocminfo", "library", "session"]
    assert checks[0].passed == os.access("/dev/kfd", os.R_OK | os.W_OK)
    if not checks[0].passed:
        assert checks[-1].passed is None


def test_a_library_that_is_none_is_loaded_in_another_process(machine: Machine, tmp_path: Path) -> None:
    from edgex.runtime.engines.onnxruntime.provider.probe import ask_probe

    (tmp_path / "libnone.so").write_text("no ELF")
    name, detail, _ = failing(replace(machine, library=tmp_path / "libnone.so", ask=ask_probe))
    assert name == "library" and "libnone.so" in detail


@pytest.mark.parametrize(
    ("number", "name"), [(90010, "gfx90a"), (90402, "gfx942"), (110001, "gfx1101"), (100300, "gfx1030")]
)
def test_names_of_graphics_versions(number: int, name: str) -> None:
    assert gfx_name(number) == name
