"""Apps of `litert` artifacts; what the converter writes is another test's matter, so an ONNX artifact stands in."""

import json
import re

import pytest

from edgex.errors import EdgexError
from edgex.export.android.engine.versions import LITERT_AAR
from edgex.export.android.generate import generate_app
from edgex.export.android.options import AppOptions
from edgex.export.android.project import PROJECT, VARIANTS
from edgex.runtime.artifact.artifact import open_artifact

ENGINES = "model/src/main/kotlin/dev/edgex/model/engine"


@pytest.fixture
def litert_artifact(onnx_artifact_of):
    """Make one, with changes to its manifest."""

    def make(**requirements):
        artifact = onnx_artifact_of()
        path = artifact.path / "manifest.json"
        manifest = json.loads(path.read_text())
        manifest.update(engine="litert", target="litert", producer={"edgex": "0.1.0", "ai-edge-litert": "2.3.0"})
        manifest["requirements"].update({"engine": "litert", "minimum_version": None, **requirements})
        for file in manifest["files"]:
            if file["path"] == "model.onnx":
                file["path"] = "model.tflite"
                (artifact.path / "model.onnx").rename(artifact.path / "model.tflite")
        path.write_text(json.dumps(manifest))
        return open_artifact(artifact.path)

    return make


def test_the_app_runs_the_tflite_file_on_litert(litert_artifact, tmp_path):
    app = generate_app(litert_artifact(), tmp_path / "app", AppOptions())
    assets = app.path / "model/src/main/assets/edgex/tiny"
    manifest = json.loads((assets / "manifest.json").read_text())
    assert manifest["model"]["file"] == "model.tflite" and (assets / "model.tflite").is_file()
    assert (app.engine, app.aar) == ("litert", LITERT_AAR)
    assert f"com.google.ai.edge.litert:litert:{LITERT_AAR}" in (app.path / "model/build.gradle.kts").read_text()
    assert 'noCompress += listOf("tflite", "bin")' in (app.path / "app/build.gradle.kts").read_text()
    assert "get() = LiteRtEngine" in (app.path / ENGINES / "ModelEngine.kt").read_text()
    assert "-keep class org.tensorflow.lite.**" in (app.path / "model/consumer-rules.pro").read_text()
    naming = {
        path.relative_to(app.path).as_posix()
        for path in app.path.rglob("*")
        if path.is_file() and re.search(b"executorch|onnxruntime|fbjni", path.read_bytes(), re.I)
    }
    # A stand-in of the tests plays ExecuTorch's part.
    assert naming == {
        "model/src/test/kotlin/dev/edgex/model/Samples.kt", "app/src/test/kotlin/dev/edgex/sample/job/JobTest.kt",
    }  # fmt: skip


def test_what_this_litert_cannot_read_is_refused(litert_artifact, tmp_path):
    with pytest.raises(EdgexError, match=r"needs LiteRT 9\.0") as refusal:
        generate_app(litert_artifact(minimum_version="9.0"), tmp_path / "app", AppOptions())
    assert refusal.value.exit_code == 7
    with pytest.raises(EdgexError, match="and LiteRT runs"):
        generate_app(litert_artifact(), tmp_path / "app", AppOptions(flavor="vulkan"))


def test_the_engine_is_named_by_one_file_of_its_variant():
    naming = {
        path.relative_to(PROJECT).as_posix()
        for path in PROJECT.rglob("*.kt")
        if "import org.tensorflow" in path.read_text()
    }
    assert naming == {f"{VARIANTS}/litert/{ENGINES}/LiteRtEngine.kt"}
