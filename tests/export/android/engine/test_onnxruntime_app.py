"""Apps of `onnx-cpu` artifacts: ONNX Runtime in place of ExecuTorch, behind the same interface."""

import json
import re
from dataclasses import replace

import pytest

from edgex.errors import EdgexError
from edgex.export.android.engine.versions import ONNXRUNTIME_AAR
from edgex.export.android.generate import generate_app
from edgex.export.android.options import AppOptions
from edgex.export.android.project import PROJECT, VARIANTS
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


def carried_state(manifest):
    state = {"name": "count", "dtype": "float32", "shape": [1], "input": "state_in.count", "output": "state_out.count"}
    manifest["methods"][0]["state"] = [state]


def weights_beside(manifest):
    manifest["files"].append({"path": "model.onnx.data", "bytes": 9, "sha256": "0" * 64})


@pytest.mark.parametrize(
    ("change", "options", "code", "words"),
    [
        (carried_state, {}, 2, "it has state, count"),
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


def test_the_engine_is_named_by_one_file_of_its_variant():
    naming = {
        path.relative_to(PROJECT).as_posix()
        for path in PROJECT.rglob("*.kt")
        if re.search(r"\bai\.onnxruntime\b", path.read_text())
    }
    assert naming == {f"{VARIANTS}/onnxruntime/{ENGINES}/OnnxRuntimeEngine.kt"}
