"""Apps of `onnx-cpu` artifacts: ONNX Runtime in place of ExecuTorch, behind the same interface."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save_file

from edgex.errors import EdgexError
from edgex.export.android.engine.versions import ONNXRUNTIME_AAR
from edgex.export.android.generate import generate_app
from edgex.export.android.options import AppOptions
from edgex.export.android.project import PROJECT, VARIANTS
from edgex.runtime.artifact.artifact import hash_file
from edgex.runtime.artifact.manifest import parse_manifest

ENGINES = "model/src/main/kotlin/dev/edgex/model/engine"
DEPENDENCY = f'val engine = "com.microsoft.onnxruntime:onnxruntime-android:{ONNXRUNTIME_AAR}"'


def content(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def app(onnx_artifact_of, tmp_path):
    return generate_app(onnx_artifact_of(), tmp_path / "app", AppOptions())


def test_the_app_runs_the_onnx_file_on_onnxruntime(app, onnx_artifact_of):
    assets = app.path / "model/src/main/assets/edgex/tiny"
    artifact = onnx_artifact_of()
    assert (assets / "model.onnx").read_bytes() == artifact.file(".onnx").read_bytes()
    manifest = json.loads((assets / "manifest.json").read_text())
    assert manifest["model"]["file"] == "model.onnx"
    assert manifest["model"]["sha256"] == artifact.manifest.file(".onnx").sha256
    assert manifest["model"]["backends"] == ["CPUExecutionProvider"]
    assert manifest["versions"] == {
        "edgex": "0.1.0", "engine": "onnxruntime", "exporter": "1.31.1", "library": "onnxruntime-android",
        "aar": ONNXRUNTIME_AAR, "flavor": "cpu",
    }  # fmt: skip
    build = (app.path / "model/build.gradle.kts").read_text()
    assert DEPENDENCY in build and 'consumerProguardFiles("consumer-rules.pro")' in build
    assert "-keep class ai.onnxruntime.**" in (app.path / "model/consumer-rules.pro").read_text()
    assert "get() = OnnxRuntimeEngine" in (app.path / ENGINES / "ModelEngine.kt").read_text()
    assert "ONNX Runtime" in (app.path / "LICENSE-THIRD-PARTY.md").read_text()
    assert (app.engine, app.aar) == ("onnxruntime", ONNXRUNTIME_AAR)


def test_nothing_of_the_other_engine_is_left(app):
    files = content(app.path)
    assert f"{ENGINES}/OnnxRuntimeEngine.kt" in files and f"{ENGINES}/ExecuTorchEngine.kt" not in files
    # A stand-in of the tests plays ExecuTorch's part; nothing else names it.
    naming = {name for name, text in files.items() if re.search(b"executorch|fbjni|pytorch:", text, re.I)}
    assert naming == {
        "model/src/test/kotlin/dev/edgex/model/Samples.kt", "app/src/test/kotlin/dev/edgex/sample/job/JobTest.kt",
    }  # fmt: skip
    assert not [name for name in files if name.endswith((".pte", "ENGINE.md")) or VARIANTS in name]


def test_two_generations_are_equal_and_the_shared_sources_are_those_of_any_app(
    app, artifact_of, onnx_artifact_of, tmp_path
):
    again = generate_app(onnx_artifact_of(), tmp_path / "again", AppOptions())
    assert content(app.path) == content(again.path)
    other = generate_app(artifact_of(), tmp_path / "other", AppOptions())
    kotlin = {name: text for name, text in content(other.path).items() if name.endswith(".kt")}
    differing = {name for name, text in content(app.path).items() if name in kotlin and kotlin[name] != text}
    # The class says which target its model is of.
    assert differing == {f"{ENGINES}/ModelEngine.kt", "model/src/main/kotlin/dev/edgex/model/TinyModel.kt"}


def test_the_library_alone_has_the_rules_and_licences_of_its_engine(onnx_artifact_of, tmp_path):
    made = generate_app(onnx_artifact_of(), tmp_path / "eyes", AppOptions(library_only=True))
    top = {path.name for path in made.path.iterdir()}
    assert top == {
        "LICENSE-THIRD-PARTY.md", "README.md", "build.gradle.kts", "consumer-rules.pro", "edgex-bundle.json", "src",
    }  # fmt: skip
    readme = (made.path / "README.md").read_text()
    assert "with ONNX Runtime, without network" in readme and 'noCompress += listOf("onnx", "bin")' in readme


def test_a_model_may_be_pushed_or_come_in_a_pack(onnx_artifact_of, tmp_path):
    pushed = generate_app(onnx_artifact_of(), tmp_path / "pushed", AppOptions(model_source="push"))
    assert pushed.model_place.endswith(f"/files/edgex/{pushed.model_sha256}.onnx")
    assert not list(pushed.path.rglob("*.onnx"))
    packed = generate_app(onnx_artifact_of(), tmp_path / "packed", AppOptions(delivery="on-demand"))
    assert (packed.path / "modelpack/src/main/assets/edgex/tiny/model.onnx").is_file()


def test_state_goes_along_with_its_initial_values(onnx_artifact_of, tmp_path):
    """The engine's file keeps none: the library hands it from run to run."""

    def carry(manifest):
        folder = tmp_path / "made" / "tiny.onnx-cpu.edgex"
        save_file({"count": np.array([2.5], np.float32)}, folder / "state.safetensors")
        state = {"name": "count", "dtype": "float32", "shape": [1], "input": "state_in.count", "output": "out"}
        manifest["methods"][0]["state"] = [state]
        manifest["files"].append(
            {
                "path": "state.safetensors",
                "bytes": (folder / "state.safetensors").stat().st_size,
                "sha256": hash_file(folder / "state.safetensors"),
            }
        )

    app = generate_app(onnx_artifact_of(carry), tmp_path / "app", AppOptions())
    assets = app.path / "model/src/main/assets/edgex/tiny"
    manifest = json.loads((assets / "manifest.json").read_text())
    assert manifest["model"]["stateful"]
    assert manifest["state"] == [{"name": "state_in.count", "dtype": "float32", "shape": [1], "file": "state/00.bin"}]
    assert np.frombuffer((assets / "state/00.bin").read_bytes(), "<f4") == [2.5]
    assert "suspend fun reset()" in (app.path / "model/src/main/kotlin/dev/edgex/model/TinyModel.kt").read_text()


def test_weights_in_a_second_file_are_pushed(onnx_artifact_of, tmp_path):
    def split(manifest):
        folder = tmp_path / "made" / "tiny.onnx-cpu.edgex"
        (folder / "model.onnx.data").write_bytes(bytes(8))
        entry = {"path": "model.onnx.data", "bytes": 8, "sha256": hash_file(folder / "model.onnx.data")}
        manifest["files"].append(entry)

    artifact = onnx_artifact_of(split)
    app = generate_app(artifact, tmp_path / "app", AppOptions(model_source="push"))
    manifest = json.loads((app.path / "model/src/main/assets/edgex/tiny/manifest.json").read_text())
    assert manifest["model"]["weights"] == {"file": "model.onnx.data", "sha256": artifact.manifest.file(".data").sha256}


def test_an_artifact_for_the_htp_gets_the_build_with_qnn(onnx_artifact_of, tmp_path):
    def for_htp(manifest):
        chosen = {"soc_model": 57, "htp_arch": 75, "enable_htp_fp16_precision": True, "vtcm_mb": 8}
        manifest.update(target="onnx-qnn", options={"soc": "sm8650", "provider_options": chosen})

    app = generate_app(onnx_artifact_of(for_htp), tmp_path / "app", AppOptions())
    manifest = json.loads((app.path / "model/src/main/assets/edgex/tiny/manifest.json").read_text())
    # The phone's own chip is found when the model is loaded.
    assert manifest["provider"] == {"enable_htp_fp16_precision": "1", "vtcm_mb": "8"}
    assert manifest["model"]["backends"] == ["QNNExecutionProvider"]
    assert f"onnxruntime-android-qnn:{ONNXRUNTIME_AAR}" in (app.path / "model/build.gradle.kts").read_text()
    build = (app.path / "app/build.gradle.kts").read_text()
    assert 'abiFilters += "arm64-v8a"' in build and "useLegacyPackaging = true" in build and "x86_64" not in build
    assert "libcdsprpc.so" in (app.path / "app/src/main/AndroidManifest.xml").read_text()
    assert "addQnn(" in (app.path / ENGINES / "OnnxRuntimeProvider.kt").read_text()
    assert "QNN runtime" in (app.path / "LICENSE-THIRD-PARTY.md").read_text()
    assert "HTP of a Snapdragon" in (app.path / "README.md").read_text()
    assert "useLegacyPackaging = true" in (app.path / "model/README.md").read_text()
    assert "atdDebugAndroidTest" not in (app.path / ".github/workflows/android.yml").read_text()
    assert any("Snapdragon" in notice for notice in app.notices)


def weights_beside(manifest):
    entry = manifest["files"][0]
    manifest["files"].append({**entry, "path": "model.onnx.data"})


@pytest.mark.parametrize(
    ("change", "options", "code", "words"),
    [
        (weights_beside, {}, 2, "weights lie in model.onnx.data"),
        (lambda manifest: manifest.update(target="onnx-rocm"), {}, 2, "it is for onnx-rocm"),
        (lambda manifest: manifest["requirements"].update(minimum_version="1.99"), {}, 7, "needs ONNX Runtime 1.99"),
        (lambda manifest: None, {"flavor": "vulkan"}, 2, "one of ExecuTorch's libraries"),
    ],
)
def test_what_onnxruntime_cannot_run_here_is_refused_by_name(onnx_artifact_of, tmp_path, change, options, code, words):
    artifact = onnx_artifact_of()
    document = json.loads((artifact.path / "manifest.json").read_text())
    change(document)
    artifact = replace(artifact, manifest=parse_manifest(json.dumps(document), "tiny"))
    with pytest.raises(EdgexError, match=words) as refusal:
        generate_app(artifact, tmp_path / "app", AppOptions(**options))
    assert refusal.value.exit_code == code and refusal.value.fix
    assert not (tmp_path / "app").exists()


def test_the_engine_is_named_by_its_variants_alone():
    naming = {
        path.relative_to(PROJECT).as_posix()
        for path in PROJECT.rglob("*.kt")
        if re.search(r"\bai\.onnxruntime\b", path.read_text())
    }
    assert naming == {
        f"{VARIANTS}/{variant}/{ENGINES}/OnnxRuntime{name}.kt"
        for variant, name in (
            ("onnxruntime", "Engine"), ("onnxruntime-cpu", "Provider"), ("onnxruntime-qnn", "Provider"),
        )
    }  # fmt: skip
