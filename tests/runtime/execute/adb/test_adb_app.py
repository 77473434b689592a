"""The benchmark app: read from an APK, installed where it must be, taken back where the run failed."""

import io
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from adb_support import make_artifact, needs_adb
from standin_apk import compiled_manifest, write_apk
from standin_app import APP, StandInApp

from edgex.errors import DeviceError
from edgex.runtime.execute.adb.app.apk import find_apk, read_apk
from edgex.runtime.execute.adb.app.app import check_app_choice
from edgex.runtime.execute.adb.app.axml import read_package
from edgex.runtime.execute.address import open_executor
from edgex.runtime.execute.request import DeviceOptions, RunRequest

REQUEST = RunRequest((({"x": np.ones((2, 3), np.float32)},),))


def execute(app, artifact):
    with open_executor("adb", DeviceOptions(app=str(app))) as device:
        return device.execute(artifact, REQUEST)


@pytest.mark.parametrize("utf8", [True, False])
def test_the_package_is_read_from_a_compiled_manifest(utf8):
    assert read_package(compiled_manifest("com.acme.app", utf8=utf8)) == "com.acme.app"


@pytest.mark.parametrize(
    "data",
    [b"", b"<manifest package='x'/>", compiled_manifest("x", attributes=("versionCode",)), compiled_manifest("x")[:60]],
)
def test_what_is_no_compiled_manifest_is_refused(data):
    with pytest.raises(ValueError, match=r"(?i)manifest"):
        read_package(data)


def test_damage_anywhere_in_a_manifest_is_read_or_refused():
    data = compiled_manifest("com.acme.app")
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
        with suppress(ValueError):
            assert isinstance(read_package(damaged), str)


def test_an_apk_says_what_it_is(tmp_path):
    apk = read_apk(write_apk(tmp_path / "app.apk", abis=("arm64-v8a", "x86_64")))
    assert (apk.application_id, apk.abis, apk.executorch) == (APP, ("arm64-v8a", "x86_64"), "1.5.1")


def test_a_projects_apk_is_found_release_first(tmp_path):
    with pytest.raises(DeviceError, match="is not built yet") as caught:
        find_apk(tmp_path)
    assert "./gradlew assembleRelease" in caught.value.fix
    outputs = tmp_path / "app/build/outputs/apk"
    debug = write_apk(outputs / "debug/app-debug.apk")
    assert find_apk(tmp_path) == debug
    release = write_apk(outputs / "release/app-release.apk")
    assert find_apk(tmp_path) == release
    with pytest.raises(DeviceError, match="no app at"):
        find_apk(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("leave_out", "sentence"),
    [
        (("assets/edgex/net/manifest.json",), "is not an app that edgex wrote"),
        (("AndroidManifest.xml",), "cannot be read as an app"),
        (("lib/arm64-v8a/libexecutorch.so",), "holds no libexecutorch.so"),
    ],
)
def test_other_apks_are_refused(tmp_path, leave_out, sentence):
    with pytest.raises(DeviceError, match=sentence) as caught:
        check_app_choice(str(write_apk(tmp_path / "app.apk", leave_out=leave_out)))
    assert caught.value.exit_code == 8


def test_what_is_no_app_at_all_is_refused(tmp_path):
    (tmp_path / "text.apk").write_text("no zip")
    with pytest.raises(DeviceError, match="cannot be read as an app"):
        check_app_choice(str(tmp_path / "text.apk"))
    with pytest.raises(DeviceError, match="no application id"):
        check_app_choice("app")
    assert check_app_choice("com.acme.app") == "com.acme.app"


@needs_adb
def test_an_apk_is_installed_once(bench, tmp_path):
    apk, artifact = write_apk(tmp_path / "app.apk"), make_artifact(tmp_path)
    phone = bench(StandInApp(installed=()))
    execute(apk, artifact)
    assert phone.app.apk == apk.read_bytes() and phone.app.installed == [APP]
    execute(apk, artifact)
    assert sum("install" in line and "-S" in line for line in phone.lines) == 1


@needs_adb
def test_a_failed_run_takes_its_app_back_and_never_anothers(bench, tmp_path):
    apk, artifact = write_apk(tmp_path / "app.apk"), make_artifact(tmp_path)
    phone = bench(StandInApp(installed=(), fault="crash"))
    with pytest.raises(DeviceError, match="crashed"):
        execute(apk, artifact)
    assert phone.app.installed == [] and phone.files() == []
    phone.app.installed = [APP]
    with pytest.raises(DeviceError, match="crashed"):
        execute(apk, artifact)
    assert phone.app.installed == [APP]


@needs_adb
def test_without_an_app_it_says_how_to_make_one(bench, tmp_path):
    phone = bench(StandInApp(installed=()))
    artifact = make_artifact(tmp_path)
    with open_executor("adb") as device, pytest.raises(DeviceError, match="is not installed on the device") as caught:
        device.execute(artifact, REQUEST)
    assert "edgex android" in caught.value.fix
    with pytest.raises(DeviceError, match=r"the app com\.acme\.app is not installed"):
        execute("com.acme.app", artifact)
    phone.app.installed = [APP, "dev.edgex.app.two"]
    with open_executor("adb") as device, pytest.raises(DeviceError, match="2 apps that edgex wrote") as caught:
        device.execute(artifact, REQUEST)
    assert caught.value.fix == f"--app {APP}"
    execute(APP, artifact)


@needs_adb
@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        ("INSTALL_FAILED_INSUFFICIENT_STORAGE", "no room left for the app"),
        ("INSTALL_FAILED_NO_MATCHING_ABIS: Failed to extract", "the app's ABI is wrong"),
        ("INSTALL_FAILED_OLDER_SDK", "this Android is too old"),
        ("INSTALL_FAILED_UPDATE_INCOMPATIBLE", "signed with another key"),
        ("INSTALL_FAILED_USER_RESTRICTED", "asks before it installs"),
        ("INSTALL_FAILED_ABORTED", "could not install the app"),
    ],
)
def test_androids_refusals_are_explained(bench, tmp_path, failure, sentence):
    phone = bench(StandInApp(installed=()))
    phone.app.install_failure = failure
    with pytest.raises(DeviceError, match=sentence) as caught:
        execute(write_apk(tmp_path / "app.apk"), make_artifact(tmp_path))
    assert "INSTALL_FAILED" in caught.value.why
    assert phone.app.installed == [] and phone.files() == []


@needs_adb
def test_an_app_for_another_processor_is_not_even_sent(bench, tmp_path):
    phone = bench(StandInApp(installed=()))
    with pytest.raises(DeviceError, match="built for x86_64"):
        execute(write_apk(tmp_path / "app.apk", abis=("x86_64",)), make_artifact(tmp_path))
    assert phone.app.apk is None


def test_a_linked_apk_of_aapt2_is_read(tmp_path):
    """The real format, from the real tool."""
    import shutil
    import subprocess

    framework = Path("/usr/share/android-framework-res/framework-res.apk")
    if shutil.which("aapt2") is None or not framework.is_file():
        pytest.skip("aapt2 or its framework are missing: apt-get install aapt android-framework-res")
    (tmp_path / "AndroidManifest.xml").write_text(
        '<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="com.acme.linked"/>'
    )
    command = [
        "aapt2",
        "link",
        "-I",
        framework,
        "--manifest",
        tmp_path / "AndroidManifest.xml",
        "-o",
        tmp_path / "a.apk",
    ]
    subprocess.run(command, check=True, capture_output=True)
    with zipfile.ZipFile(io.BytesIO((tmp_path / "a.apk").read_bytes())) as archive:
        assert read_package(archive.read("AndroidManifest.xml")) == "com.acme.linked"
