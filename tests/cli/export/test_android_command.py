"""`edgex android` on the command line: flags, output, exit codes, and --build where the SDK is there or not."""

import json
import os
from pathlib import Path

import pytest

from edgex.errors import RunError, TargetUnavailable, UsageError
from edgex.export.android.gradle import DEBUG_APK, STORE_BUNDLE, build_app, find_missing, find_sdk
from edgex.export.android.options import (
    check_application_id,
    default_application_id,
    read_labels,
)
from edgex.runtime.artifact.card import parse_image_input


def test_an_app_is_made_and_described(exported, edgex, tmp_path):
    done = edgex("android", str(exported("convnet", "xnnpack")), "-o", "app", "--name", "Nets", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "edgex.android/1"
    assert (document["name"], document["application_id"], document["path"]) == ("Nets", "dev.edgex.app.convnet", "app")
    assert document["aar"] == "xnnpack:1.5.1"
    assert (tmp_path / "app" / "settings.gradle.kts").is_file()
    again = edgex("android", str(exported("convnet", "xnnpack")), "-o", "app")
    assert again.returncode == 2
    assert "--force" in again.stderr
    forced = edgex(
        "android", str(exported("convnet", "xnnpack")), "-o", "app", "--force", "--image-input", "x:0,1,NCHW"
    )
    assert forced.returncode == 0, forced.stderr
    assert "a picture in, a card for each tensor out" in forced.stdout


def test_a_model_that_is_pushed_has_the_command_for_it(exported, edgex, tmp_path):
    artifact = exported("convnet", "xnnpack")
    flags = ("--model-source", "push", "--application-id", "com.acme.nets")
    done = edgex("android", str(artifact), "-o", "an app", *flags)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "an app/model/src/main/assets/edgex/convnet/manifest.json").read_text())
    place = f"/sdcard/Android/data/com.acme.nets/files/edgex/{manifest['model']['sha256']}.pte"
    assert f"adb push {artifact}/model.pte {place}\n" in done.stdout
    assert "cd 'an app' && ./gradlew" in done.stdout
    assert not list((tmp_path / "an app").rglob("*.pte"))


def test_what_a_store_asks_for_is_said(exported, edgex, tmp_path):
    artifact = str(exported("convnet", "xnnpack"))
    done = edgex("android", artifact, "-o", "app", "--aab", "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["aab"], document["apk"]) == (0, None, None)
    for words in ("--application-id", "keytool -genkeypair", "./gradlew bundleRelease", "versionCode"):
        assert any(words in note for note in document["store"]), words
    (tmp_path / "app/keystore.properties").write_text("storeFile=upload.jks\n")
    again = edgex("android", artifact, "-o", "app", "--aab", "--force", "--application-id", "com.acme.nets")
    assert again.returncode == 0, again.stderr
    assert "  store       cd app && ./gradlew bundleRelease" in again.stdout
    assert "keytool" not in again.stdout and "--application-id" not in again.stdout
    pushed = edgex("android", artifact, "-o", "other", "--aab", "--model-source", "push")
    assert "  store       the app holds no model" in pushed.stdout


@pytest.mark.slow
def test_state_and_dynamic_dimensions_reach_the_app(exported, edgex, tmp_path):
    for model in ("counter", "dynamic"):
        done = edgex("android", str(exported(model, "xnnpack")))
        assert done.returncode == 0, done.stderr
    manifests = {
        model: json.loads((tmp_path / f"{model}-android/model/src/main/assets/edgex/{model}/manifest.json").read_text())
        for model in ("counter", "dynamic")
    }
    assert manifests["counter"]["model"]["stateful"]
    assert max(len(case["steps"]) for case in manifests["counter"]["golden"]) >= 4
    assert manifests["dynamic"]["inputs"][0]["shape"][0] == {"name": "batch", "min": 1, "max": 8}
    shapes = {case["steps"][0]["inputs"][0]["shape"][0] for case in manifests["dynamic"]["golden"]}
    assert {1, 8} <= shapes


def test_an_onnx_artifact_gets_an_app_with_onnxruntime(exported, edgex, tmp_path):
    done = edgex("android", str(exported("convnet", "onnx-cpu")), "-o", "app", "--model-source", "push")
    assert done.returncode == 0, done.stderr
    assert "  onnxruntime " in done.stdout and "/model.onnx /sdcard/" in done.stdout
    manifest = json.loads((tmp_path / "app/model/src/main/assets/edgex/convnet/manifest.json").read_text())
    assert manifest["versions"]["engine"] == "onnxruntime" and manifest["golden"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--application-id", "App"), "two parts"),
        (("--application-id", "com.new.app"), "word of Java"),
        (("--application-id", "com.Acme.app"), "lower-case"),
        (("--name", " "), "1 to 50"),
        (("--labels", "none.txt"), "cannot be read"),
        (("--image-input", "x"), "expected name:mean,std"),
        (("--image-input", "x:a,1,NCHW"), "must be numbers"),
        (("--image-input", "x:0,1,NCWH"), "did you mean 'NCHW'"),
        (("--flavor", "qnn"), "qnn"),
        (("--delivery", "on-demand", "--model-source", "push"), "beside the app"),
        (("--library-only", "--build"), "writes no app"),
    ],
)
def test_flags_are_checked_before_the_artifact_is_opened(edgex, tmp_path, flags, words):
    done = edgex("android", "no.xnnpack.edgex", "-o", "app", *flags)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert not (tmp_path / "app").exists()


def test_a_missing_artifact_is_said(edgex):
    done = edgex("android", "no.xnnpack.edgex", "--json")
    assert done.returncode == 6
    assert json.loads(done.stdout)["schema"] == "edgex.error/1"


def test_application_ids():
    assert check_application_id("com.acme.app_2") == "com.acme.app_2"
    assert default_application_id("Mobile-Net v2") == "dev.edgex.app.mobile_net_v2"
    assert default_application_id("7net") == "dev.edgex.app.m_7net"
    assert default_application_id("class") == "dev.edgex.app.m_class"
    for name in ("---", "日本", "int"):
        check_application_id(default_application_id(name))


def test_labels_are_one_a_line(tmp_path):
    (tmp_path / "labels.txt").write_text("cat\n dog \n")
    assert read_labels(tmp_path / "labels.txt") == ("cat", "dog")
    for text in ("", "cat\n\ndog\n"):
        (tmp_path / "labels.txt").write_text(text)
        with pytest.raises(UsageError, match="empty"):
            read_labels(tmp_path / "labels.txt")


def test_one_number_is_for_all_channels():
    image = parse_image_input("a.b:0.5,0.1/0.2/0.3,nhwc")
    assert (image.input, image.layout) == ("a.b", "NHWC")
    assert (image.mean, image.std) == ((0.5, 0.5, 0.5), (0.1, 0.2, 0.3))


@pytest.fixture
def machine(tmp_path):
    """(environment, home) with a Java of our own and, once made, an SDK; and a project whose Gradle is a script."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    java.chmod(0o755)
    environment = {"PATH": os.environ["PATH"], "JAVA_HOME": str(tmp_path / "jdk")}
    project = tmp_path / "app"
    project.mkdir()

    def gradle(script):
        (project / "gradlew").write_text(f"#!/bin/sh\n{script}\n")
        return project

    return environment, tmp_path, gradle


def test_what_is_missing_is_said(machine):
    environment, home, gradle = machine
    project = gradle("exit 0")
    with pytest.raises(TargetUnavailable, match="cannot be built here: the Android SDK is missing") as missing:
        build_app(project, environment, home)
    assert missing.value.exit_code == 7
    assert "ANDROID_HOME" in missing.value.fix
    assert "./gradlew assembleDebug" in missing.value.fix
    named_wrongly = find_missing({**environment, "ANDROID_HOME": str(home / "nowhere")}, home)
    assert named_wrongly[0][0] == f"the Android SDK (ANDROID_HOME={home}/nowhere holds none)"
    without_java = find_missing({"PATH": ""}, home)
    assert [what.split(" (")[0] for what, _ in without_java] == ["a JDK of version 17 or later", "the Android SDK"]


def test_the_sdk_is_found_where_it_is_named_or_where_studio_puts_it(machine):
    environment, home, _ = machine
    assert find_sdk(environment, home) is None
    (home / "Android/Sdk/platforms").mkdir(parents=True)
    assert find_sdk(environment, home) == home / "Android/Sdk"
    (home / "sdk/licenses").mkdir(parents=True)
    assert find_sdk({"ANDROID_HOME": str(home / "sdk")}, home) == home / "sdk"
    assert find_sdk({"ANDROID_HOME": str(home / "other")}, home) is None, "another SDK than the named one"


def test_gradle_is_run_and_its_failure_is_told(machine):
    environment, home, gradle = machine
    (home / "Android/Sdk/platforms").mkdir(parents=True)
    for build in (DEBUG_APK, STORE_BUNDLE):
        project = gradle(f'test "$1" = {build.task} && mkdir -p {Path(build.output).parent} && echo a >{build.output}')
        assert build_app(project, environment, home, build) == project / build.output
    with pytest.raises(RunError, match="exit code 3") as failure:
        build_app(gradle("echo 'no such plugin'; exit 3"), environment, home)
    assert failure.value.why == "no such plugin"
    (project / DEBUG_APK.output).unlink()
    with pytest.raises(RunError, match="there is no"):
        build_app(gradle("exit 0"), environment, home)
