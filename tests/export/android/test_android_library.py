"""The library that `edgex android` writes for one model: its Kotlin class, its README, and `--library-only`."""

import json
import re
from pathlib import Path

import pytest

from edgex.export.android.engine.app_engine import AppEngine
from edgex.export.android.generate import generate_app
from edgex.export.android.library.kotlin_class import ModelClass
from edgex.export.android.library.kotlin_names import make_class_name, make_folder_name, make_names
from edgex.export.android.library.operators import PORTABLE_OPERATORS, write_operators
from edgex.export.android.library.readme import write_readme
from edgex.export.android.options import AppOptions
from edgex.runtime.engines.executorch.pte import PteSummary

CLASS = "src/main/kotlin/dev/edgex/model/TinyModel.kt"


@pytest.mark.parametrize(
    ("name", "made", "folder"),
    [
        ("keyword_spotter", "KeywordSpotterModel", "keyword_spotter"),
        ("my-model", "MyModel", "my_model"),
        ("7net", "Net7netModel", "7net"),
        ("edge", "OwnEdgeModel", "edge"),
        ("日本", "NetModel", "model"),
    ],
)
def test_a_model_has_a_class_and_a_folder(name, made, folder):
    assert (make_class_name(name), make_folder_name(name)) == (made, folder)


def test_names_of_tensors_are_names_of_kotlin():
    assert make_names(["x", "batch.mask", "xs.0", "output_0", "in", "3d"]) == [
        "x", "batchMask", "xs0", "output0", "`in`", "tensor3d",
    ]  # fmt: skip
    assert make_names(["a.b", "a_b", "a"], taken=["a"]) == ["aB", "aB2", "a2"]


def tensor(name, dtype, shape, image=None, activation=None):
    return {"name": name, "dtype": dtype, "shape": shape, "image": image, "activation": activation}


def document(**changes):
    """The manifest of a model with two inputs, one of them dynamic."""
    dynamic = {"name": "length", "min": 1, "max": 8}
    about = "Adds /* two */ things."
    entries = {
        "model": {"name": "tiny", "description": about, "target": "xnnpack", "precision": "fp32", "stateful": False},
        "versions": {"edgex": "0.1.0"},
        "inputs": [tensor("ids", "int64", [1, dynamic]), tensor("in.mask", "float16", [4])],
        "outputs": [tensor("output_0", "float32", [1, dynamic])],
        "labels": [],
        "detection": None,
    }
    return entries | changes


def test_inputs_outputs_and_sizes_have_their_types_and_names():
    text = ModelClass(document(), "tiny").write()
    assert "suspend fun run(ids: LongArray, inMask: FloatArray, length: Int): Outputs {" in text
    assert "class Outputs(val output0: FloatArray, val output0Shape: IntArray)" in text
    assert 'model.input("ids").spec.tensorOf(ids, sizes)' in text
    assert 'model.input("in.mask").spec.tensorOf(inMask)' in text
    assert "fun reset" not in text and "labels" not in text and "Bitmap" not in text
    assert text.count("/*") == text.count("*/"), "a description cannot end its comment"
    assert all(len(line) <= 140 for line in text.splitlines())


PICTURE = [tensor("x", "float32", [1, 3, 4, 4], image={"layout": "NCHW"})]
SCORES = [tensor("y", "float32", [1, 1], activation="logits")]


@pytest.mark.parametrize(
    ("changes", "has", "lacks"),
    [
        (
            {"labels": ["a"], "inputs": PICTURE, "outputs": SCORES},
            "suspend fun classify(picture: Bitmap, count: Int = 5): List<Guess> =", "detect",
        ),
        (
            {"detection": {"boxes": 0}, "inputs": PICTURE},
            "suspend fun detect(picture: Bitmap): List<Detection> {", "classify",
        ),
        ({"inputs": PICTURE, "outputs": PICTURE}, "suspend fun transform(picture: Bitmap): Bitmap =", "classify"),
        ({"detection": {"boxes": 0}}, "suspend fun run(", "detect"),
    ],
)  # fmt: skip
def test_a_model_of_pictures_takes_bitmaps(changes, has, lacks):
    text = ModelClass(document(**changes), "tiny").write()
    assert has in text
    assert lacks not in text


ENGINE = AppEngine(
    "executorch", "ExecuTorch", "org.pytorch", "executorch-android", "1.5.1", "1.5.1", "xnnpack", ".pte", ()
)
WIDE = {"name": "width", "min": 8, "max": 64}
SIZED = [tensor("x", "float32", [1, 3, 4, WIDE], image={"layout": "NCHW"})]


@pytest.mark.parametrize(
    ("changes", "call", "says"),
    [
        ({}, "model.run(ids, inMask, length).output0", None),
        ({"labels": ["a"], "inputs": PICTURE, "outputs": SCORES}, "model.classify(picture).first()", "holds logits"),
        (
            {"labels": ["a"], "inputs": SIZED, "outputs": [tensor("y", "float32", [1, 1], activation="probabilities")]},
            "model.classify(picture, width).first()", "holds probabilities",
        ),
        ({"labels": ["a"], "outputs": SCORES}, "model.classify(ids, inMask, length).first()", "a softmax"),
        ({"detection": {"boxes": 0}, "inputs": PICTURE}, "model.detect(picture)", None),
        ({"inputs": PICTURE, "outputs": PICTURE}, "model.transform(picture)", None),
    ],
)  # fmt: skip
def test_the_example_imports_what_it_uses_and_scores_are_explained(changes, call, says):
    readme = write_readme(ModelClass(document(**changes), "tiny"), "eyes", ENGINE)
    assert readme.startswith("# TinyModel: `tiny` as an Android library\n\nAdds /* two */ things.\n")
    example = next(block for block in re.findall(r"```kotlin\n(.*?)```", readme, re.S) if "class " in block)
    head, _, body = example.partition("\nclass ")
    imported = {line.rpartition(".")[2] for line in head.split()[1::2]}
    used = set(re.findall(r"\b(?:[A-Z]\w+|viewModelScope|launch)\b", re.sub(r'"[^"]*"', "", body)))
    used -= {"Int", "FloatArray", "LongArray", "TinyViewModel"}
    assert used == imported, "an import is missing, or one too many"
    assert call in body
    assert ("`y` holds" not in readme) if says is None else ("`y` holds" in readme and says in readme)


def test_the_library_alone_is_a_module_for_an_existing_app(artifact_of, tmp_path):
    artifact = artifact_of()
    made = generate_app(artifact, tmp_path / "eyes", AppOptions(library_only=True))
    top = {path.name for path in made.path.iterdir()}
    files = {"LICENSE-THIRD-PARTY.md", "README.md", "build.gradle.kts", "edgex-bundle.json"}
    assert top == {*files, "selected_operators.yaml", "src"}
    assert "class TinyModel(context: Context, threads: Int = 0) : Closeable {" in (made.path / CLASS).read_text()
    readme = (made.path / "README.md").read_text()
    assert (
        "\n\n\n" not in readme
        and 'include(":eyes")' in readme
        and "private val model = TinyModel(application)" in readme
    )
    manifest = json.loads((made.path / "src/main/assets/edgex/tiny/manifest.json").read_text())
    assert manifest["format"] == "edgex.android-model/1"
    whole = generate_app(artifact, tmp_path / "app", AppOptions())
    start = (whole.path / "README.md").read_text()
    assert start.startswith("# tiny\n") and "APPLICATION_ID" not in start and whole.application_id in start
    for path in (made.path / "src").rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (whole.path / "model" / path.relative_to(made.path)).read_bytes()


def test_the_operators_are_those_that_the_program_names():
    """As ExecuTorch's build reads them: its own reader of the file, without a build."""
    yaml = pytest.importorskip("yaml", reason="PyYAML, which executorch brings, is not installed")
    program = PteSummary(("XnnpackBackend",), ("aten::cumsum.out", "aten::add.out", "aten::cumsum.out"), 0)
    found = yaml.safe_load(write_operators(program, "model.pte"))
    assert sorted(found["operators"]) == sorted(found["et_kernel_metadata"]) == ["aten::add.out", "aten::cumsum.out"]
    assert found["operators"]["aten::add.out"]["debug_info"] == ["model.pte"]
    assert not found["include_all_operators"]
    assert "# Predicted saving: 0.7 MB of code or more" in write_operators(program, "model.pte")
    assert yaml.safe_load(write_operators(PteSummary((), (), 0), "model.pte"))["operators"] == {}


def test_the_number_of_operators_is_executorchs():
    executorch = pytest.importorskip("executorch", reason="executorch is not installed")
    listed = Path(next(iter(executorch.__path__))) / "kernels" / "portable" / "functions.yaml"
    assert len(re.findall(r"^- (?:op|func):", listed.read_text(), re.M)) == PORTABLE_OPERATORS
