"""This machine as a device, and bundles: the native runner computes, proves and measures as the engine here does."""

from __future__ import annotations

import filecmp
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from device_support import needs_compiler
from pt2_support import rehash

import edgex as edgex_package
from edgex.errors import DeviceError, UsageError
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.artifact.golden import read_example, read_golden
from edgex.runtime.execute.address import open_executor
from edgex.runtime.execute.kit import kit as kits
from edgex.runtime.execute.linux import native
from edgex.runtime.execute.request import RunRequest
from edgex.runtime.execute.run import run_once
from edgex.runtime.execute.verification import verify
from edgex.runtime.measure.profile.collect import profile_on
from edgex.runtime.measure.profile.report import ProfileReport

pytestmark = needs_compiler


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu"])
def test_outputs_are_those_of_the_engine_here(exported, target) -> None:
    artifact = open_artifact(exported("convnet", target))
    example = read_example(artifact)
    with open_executor("local-native") as device:
        outputs, answer = run_once(device, artifact, example, threads=1)
        verdict, _ = verify(device, artifact)
    with edgex_package.load(artifact.path, threads=1) as session:
        for ours, theirs in zip(outputs, session.run(**example), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert answer.threads == 1 and answer.copied_bytes == 0
    assert verdict.passed and verdict.executed_on.endswith("(on local-native)")


def test_state_is_carried_and_put_back(exported) -> None:
    artifact = open_artifact(exported("counter", "xnnpack"))
    steps = max((case.steps for case in read_golden(artifact) if case.kind == "compare"), key=len)
    assert len(steps) > 1
    inputs = tuple(dict(step.inputs) for step in steps)
    with open_executor("local-native") as device:
        answer = device.execute(artifact, RunRequest((inputs, inputs)))
    for sequence in answer.outputs:
        for found, step in zip(sequence, steps, strict=True):
            for name, expected in step.outputs.items():
                np.testing.assert_allclose(found[name], expected, rtol=1e-5)


def test_a_profile(exported) -> None:
    artifact = open_artifact(exported("photonet", "xnnpack"))
    with open_executor("local-native") as device:
        report = profile_on(device, artifact, warmup=3, runs=20, threads=1)
    assert report.source == "device" and report.run_id and report.device["kind"] == "local-native"
    assert report.steady.n == 20 and len(report.fresh) == 3
    assert report.memory.peak_rss_bytes < 100_000_000
    assert any(row.source for row in report.ops) and report.trace.coverage > 0
    assert ProfileReport.from_json(json.loads(report.dumps())) == report


def test_commands(exported, edgex) -> None:
    artifact = str(exported("convnet", "xnnpack"))
    ran = edgex("run", artifact, "--device", "local-native", "-o", "out.npz", "--json")
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert document["device"]["kind"] == "local-native" and len(document["device"]["model_sha256"]) == 64
    assert np.load("out.npz")["output_0"].shape == (1, 5)
    assert edgex("verify", artifact, "--device", "local-native").returncode == 0
    compared = edgex("compare", artifact, artifact, "--device", "local-native", "--threads", "1", "-q")
    assert compared.returncode == 0 and "local-native" not in compared.stderr
    assert "profiled in turns on a device" in compared.stdout
    for flags, words in (
        (("profile", artifact, "--device", "local-native", "--sweep", "threads"), "--sweep does not go with"),
        (("verify", artifact, "--device", "locale"), "did you mean 'local-native'"),
        (("run", artifact, "--device-python", "python3"), "is for a device"),
    ):
        refused = edgex(*flags)
        assert refused.returncode == 2 and words in refused.stderr


def test_flags_that_nothing_has_a_use_for(exported, edgex, tmp_path) -> None:
    """Refused at once: neither is the device reached nor anything compiled."""
    native, onnx = (str(exported("convnet", target)) for target in ("xnnpack", "onnx-cpu"))
    wheel, other = (
        tmp_path / f"executorch-1.5.1-cp311-cp311-manylinux_2_28_{name}.whl" for name in ("aarch64", "x86_64")
    )
    for path in (wheel, other, tmp_path / "some.whl"):
        path.write_text("")
    nowhere = ("--device", "ssh:no-such-host.invalid")
    for flags, words in (
        (
            ("run", native, *nowhere, "--device-python", "python3"),
            "here the engine is executorch",
        ),
        (("verify", native, *nowhere, "--device-python", "python3"), "leave --device-python out"),
        (("profile", onnx, *nowhere, "--executorch-wheel", str(wheel)), "here the engine is onnxruntime"),
        (("compare", onnx, onnx, *nowhere, "--executorch-wheel", str(wheel)), "leave --executorch-wheel out"),
        (("run", native, "--device", "adb", "--executorch-wheel", str(wheel)), "is for Linux machines, not for adb"),
        (("run", onnx, "--device", "adb:ab1", "--device-python", "python3"), "is for Linux machines, not for adb:ab1"),
        (("run", native, *nowhere, "--executorch-wheel", "none.whl"), "no such file: none.whl"),
        (("run", native, *nowhere, "--executorch-wheel", "some.whl"), "some.whl is no wheel of executorch"),
        (("bundle", native, "--runtime", "linux-x86_64", "--executorch-wheel", str(wheel)), "not for x86_64"),
        (("bundle", native, "--runtime", "linux-aarch64", "--executorch-wheel", str(other)), "not for aarch64"),
        (("compare", native, wheel.name, *nowhere), "--device is for artifacts"),
    ):
        refused = edgex(*flags)
        assert refused.returncode == 2 and words in refused.stderr, (flags, refused.stderr)
    missing = edgex("verify", "none.xnnpack.edgex", *nowhere)
    assert missing.returncode == 6 and "no-such-host" not in missing.stderr


def test_devices(edgex) -> None:
    listed = edgex("devices", "--json")
    assert listed.returncode == 0
    (here,) = [one for one in json.loads(listed.stdout)["devices"] if one["kind"] == "local-native"]
    assert here["abi"] and here["free_memory_bytes"] > 0 and not here["problems"]


def _edit_manifest(path: Path, change) -> None:
    data = json.loads((path / "manifest.json").read_text())
    change(data)
    (path / "manifest.json").write_text(json.dumps(data))


def test_version_skew(own_copy, edgex) -> None:
    path = own_copy("convnet", "xnnpack")
    _edit_manifest(path, lambda data: data["producer"].update(executorch="9.1.0"))
    refused = edgex("run", str(path), "--device", "local-native")
    assert refused.returncode == 8 and "exported with executorch 9.1.0" in refused.stderr


def test_missing_instructions(own_copy, edgex) -> None:
    path = own_copy("convnet", "xnnpack")
    _edit_manifest(path, lambda data: data["requirements"].update(isa=["amx_fp16", "sme2"]))
    refused = edgex("run", str(path), "--device", "local-native")
    assert refused.returncode == 8 and "sme2" in refused.stderr


def test_a_model_of_another_digest(own_copy, edgex) -> None:
    path = own_copy("convnet", "xnnpack")
    model = path / "model.pte"
    data = bytearray(model.read_bytes())
    data[-1] ^= 1
    model.write_bytes(data)
    refused = edgex("run", str(path), "--device", "local-native", "--check", "size")
    assert refused.returncode == 8 and "SHA-256" in refused.stderr


def test_an_engine_without_a_runner(exported, edgex) -> None:
    refused = edgex("run", str(exported("convnet", "reference")), "--device", "local-native")
    assert refused.returncode == 8 and "engine torch" in refused.stderr


def test_an_old_libc(exported, monkeypatch) -> None:
    monkeypatch.setattr(native, "needed_libc", lambda kit: (99, 1))
    with pytest.raises(DeviceError, match=r"needs glibc 99\.1"), open_executor("local-native") as device:
        artifact = open_artifact(exported("convnet", "xnnpack"))
        run_once(device, artifact, read_example(artifact))


def test_no_compiler(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match=r"no C\+\+ compiler") as caught:
        kits.runner_kit(kits.this_machine())
    assert caught.value.exit_code == 8 and caught.value.fix == "apt-get install g++"


def test_another_architecture_needs_its_wheel(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    other = next(name for name in kits.MACHINES if name != kits.this_machine())
    with pytest.raises(DeviceError) as caught:
        kits.runner_kit(other)
    assert "--executorch-wheel" in caught.value.fix and f"manylinux_2_28_{other}" in caught.value.fix
    (tmp_path / "some.whl").write_text("")
    with pytest.raises(UsageError, match="is no wheel of executorch"):
        kits.runner_kit(other, tmp_path / "some.whl")
    with pytest.raises(DeviceError, match="no native runner for riscv64"):
        kits.runner_kit("riscv64")
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".unpacking")]


def test_a_bundle(exported, edgex, tmp_path) -> None:
    artifact = str(exported("convnet", "xnnpack"))
    runtime = f"linux-{kits.this_machine()}"
    for name in ("one", "two"):
        made = edgex("bundle", artifact, "--runtime", runtime, "-o", name, "--json")
        assert made.returncode == 0, made.stderr
    assert _same(tmp_path / "one", tmp_path / "two")
    page = (Path(__file__).parents[4] / "docs" / "reference" / "linux-devices.md").read_text(encoding="utf-8")
    shown = json.loads(page.split("```json\n")[1].split("```")[0])
    assert {key: type(value) for key, value in shown.items()} == {
        key: type(value) for key, value in json.loads(made.stdout).items()
    }
    (tmp_path / "other").mkdir()
    for name, words in (("one", "--force replaces it"), ("other", "is no bundle of edgex")):
        refused = edgex("bundle", artifact, "--runtime", runtime, "-o", name)
        assert refused.returncode == 2 and words in refused.stderr
    moved = (tmp_path / "one").rename(tmp_path / "else where")
    bare = {"PATH": "/usr/bin:/bin"}
    ran = subprocess.run([moved / "run.sh", "--threads", "1"], env=bare, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    cases = [line for line in map(json.loads, ran.stdout.splitlines()) if line["event"] == "case"]
    assert len(cases) == json.loads(made.stdout)["cases"] and {case["verdict"] for case in cases} == {"pass"}
    golden = moved / "golden" / "expected.tensors"
    data = bytearray(golden.read_bytes())
    data[-5] ^= 0x7F
    golden.write_bytes(data)
    assert subprocess.run([moved / "run.sh"], env=bare, capture_output=True, check=False).returncode == 4
    (moved / "model.pte").write_bytes(b"other")
    assert subprocess.run([moved / "run.sh"], env=bare, capture_output=True, check=False).returncode == 2


def test_names_of_strangers_run_nothing_on_the_device(own_copy, edgex, tmp_path) -> None:
    """Names are data in run.sh: one of several lines is refused, and the shell's own characters are quoted."""
    artifact = own_copy("convnet", "xnnpack")
    manifest = json.loads((artifact / "manifest.json").read_text())
    bundle = ("bundle", str(artifact), "--runtime", f"linux-{kits.this_machine()}", "-o")
    (artifact / "manifest.json").write_text(json.dumps({**manifest, "name": "net\ntouch hit\n#"}))
    refused = edgex(*bundle, "lines")
    assert refused.returncode == 6 and "control characters" in refused.stderr and not (tmp_path / "lines").exists()
    name = "n'; touch hit; $(touch hit) `touch hit` | touch hit & \"#"
    (artifact / "manifest.json").write_text(json.dumps({**manifest, "name": name}))
    index = artifact / "golden" / "index.json"
    index.write_text(json.dumps(json.loads(index.read_text().replace('"example"', json.dumps(name)))))
    rehash(artifact)
    made = edgex(*bundle, "quoted")
    assert made.returncode == 0, made.stderr
    ran = subprocess.run([tmp_path / "quoted" / "run.sh"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert name in [json.loads(line).get("name") for line in ran.stdout.splitlines()]
    assert not list(tmp_path.rglob("hit"))


def _same(one: Path, two: Path) -> bool:
    names = sorted(path.relative_to(one).as_posix() for path in one.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(two).as_posix() for path in two.rglob("*") if path.is_file())
    assert all(os.access(two / name, os.X_OK) for name in ("run.sh", "edgex-runner"))
    return not any(filecmp.cmpfiles(one, two, names, shallow=False)[1:])


def test_no_bundle_for_other_engines(exported, edgex, tmp_path) -> None:
    refused = edgex("bundle", str(exported("convnet", "onnx-cpu")), "--runtime", "linux-x86_64", "-o", "out")
    assert refused.returncode == 6 and "onnxruntime" in refused.stderr
    assert not (tmp_path / "out").exists()
