"""`edgex android`: what is generated is whole, says what the artifact says, and is the same every time."""

import json
import time
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from edgex.errors import ArtifactError, EdgexError
from edgex.export.android.generate import generate_app
from edgex.export.android.options import AppOptions
from edgex.export.android.project import ASSETS, BUNDLE_FILE, LIBRARY, PROJECT, VARIANTS
from edgex.export.android.templates import TEMPLATES, Identity, fill_template, kotlin_text, resource_text
from edgex.runtime.artifact.artifact import hash_file
from edgex.runtime.artifact.card import ImageInput
from edgex.runtime.artifact.golden import Case, Step

RESOURCES = "app/src/main/res"
TINY = f"{LIBRARY}/{ASSETS}/tiny"


def app_manifest(folder):
    return json.loads((folder / TINY / "manifest.json").read_text())


def content(folder):
    return {str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mode) for p in folder.rglob("*") if p.is_file()}


def test_the_app_holds_what_it_needs(artifact_of, tmp_path):
    artifact = artifact_of()
    app = generate_app(artifact, tmp_path / "app", AppOptions())
    manifest = app_manifest(app.path)
    assert (app.path / TINY / "model.pte").read_bytes() == artifact.file(".pte").read_bytes()
    assert manifest["model"]["sha256"] == hash_file(artifact.file(".pte"))
    assert manifest["model"]["backends"] == ["XnnpackBackend"]
    assert manifest["inputs"][0]["shape"] == [1, 3, 4, 4]
    assert [case["name"] for case in manifest["golden"]] == ["example"], "memory order is not the app's matter"
    entry = manifest["golden"][0]["steps"][0]["outputs"][0]
    values = np.frombuffer((app.path / TINY / entry["file"]).read_bytes(), "<f4").reshape(entry["shape"])
    np.testing.assert_array_equal(values, [[1, -2, 3]])
    assert (app.path / "gradlew").stat().st_mode & 0o111
    assert (app.screen, app.shows, app.class_name) == ("tensors", "tensors", "TinyModel")


def test_two_generations_are_equal(artifact_of, tmp_path):
    artifact = artifact_of()
    one = generate_app(artifact, tmp_path / "one", AppOptions())
    two = generate_app(artifact, tmp_path / "two", AppOptions())
    assert content(one.path) == content(two.path)


def test_making_an_app_takes_less_than_two_seconds(artifact_of, tmp_path):
    """Besides copying the model, which is tiny here; of processor time, since other programs may run beside."""
    artifact = artifact_of()
    started = time.process_time()
    generate_app(artifact, tmp_path / "app", AppOptions())
    assert time.process_time() - started < 2.0


def test_each_case_says_what_it_is_held_to(artifact_of, tmp_path):
    method = artifact_of().manifest.method
    given = {method.inputs[0].name: np.zeros((1, 3, 4, 4), np.float32)}
    step = Step(given, {method.outputs[0].name: np.ones((1, 3), np.float32)})
    cases = [Case("example", "compare", (step,)), Case("far off", "compare", (step,), reference="quantized")]
    loose, strict = ({"min_sqnr_db": db, "atol": None, "rtol": None, "min_equal": 0.9} for db in (20.0, 15.0))
    for quantized in (strict, None):
        proof = {"tolerance": loose, "quantized_tolerance": quantized}
        artifact = artifact_of(lambda manifest, proof=proof: manifest.update(verification=proof), cases)
        app = generate_app(artifact, tmp_path / f"app-{quantized is None}", AppOptions())
        manifest = app_manifest(app.path)
        assert [case["reference"] for case in manifest["golden"]] == ["eager", "quantized"]
        assert manifest["quantized_tolerance"] == quantized
        assert manifest["tolerance"] == loose


def test_the_bundle_lists_every_file_with_its_hash(artifact_of, tmp_path):
    app = generate_app(artifact_of(), tmp_path / "app", AppOptions())
    bundle = json.loads((app.path / BUNDLE_FILE).read_text())
    listed = {entry["path"]: entry["sha256"] for entry in bundle["files"]}
    assert listed == {name: hash_file(app.path / name) for name in content(app.path) if name != BUNDLE_FILE}


def test_only_the_templates_differ_from_the_sample(artifact_of, tmp_path):
    options = AppOptions(application_id="com.acme.pictures", name='Bob\'s "A&B" <1>', flavor="vulkan")
    app = generate_app(artifact_of(), tmp_path / "app", options)
    differing = {
        str(path.relative_to(PROJECT))
        for path in PROJECT.rglob("*")
        if path.is_file()
        and VARIANTS not in path.parts
        and path.read_bytes() != (app.path / path.relative_to(PROJECT)).read_bytes()
    }
    assert differing == set(TEMPLATES)
    assert 'applicationId = "com.acme.pictures"' in (app.path / "app/build.gradle.kts").read_text()
    assert '"org.pytorch:executorch-android-vulkan:1.5.1"' in (app.path / "model/build.gradle.kts").read_text()
    name = ET.parse(app.path / RESOURCES / "values/app_name.xml").getroot().find("string").text
    assert name == r"Bob\'s \"A&B\" <1>"


def test_labels_and_pictures_come_from_the_card(artifact_of, tmp_path):
    card = {"labels": ["a", "b", "c"], "image": {"input": "x", "layout": "NCHW", "mean": [0.5], "std": [0.25]}}
    artifact = artifact_of(lambda manifest: manifest.update(model={"card": card}))
    app = generate_app(artifact, tmp_path / "app", AppOptions())
    manifest = app_manifest(app.path)
    assert app.screen == "image"
    assert manifest["labels"] == ["a", "b", "c"]
    assert manifest["outputs"][0]["activation"] == "logits"
    assert manifest["inputs"][0]["image"] == {
        "layout": "NCHW", "color": "RGB", "mean": [0.5] * 3, "std": [0.25] * 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "activation"),
    [
        ([[0.2, 0.5, 0.3]], "probabilities"),
        ([[0.9, 0.8, 0.1]] * 6, "probabilities"),  # of a sigmoid: each label has its own
        ([[0.9, 0.8, 0.1]], "logits"),  # too few to tell
        ([[0.9, 0.8, 0.1]] * 6 + [[0.9, 1.5, 0.1]], "logits"),
    ],
)
def test_scores_are_told_from_probabilities_by_the_golden_data(artifact_of, tmp_path, rows, activation):
    given = {"x": np.zeros((1, 3, 4, 4), np.float32)}
    steps = [Step(given, {"output_0": np.array([row], np.float32)}) for row in rows]
    cases = [Case(f"case {at}", "compare", (step,)) for at, step in enumerate(steps)]
    artifact = artifact_of(lambda manifest: manifest.update(model={"card": {"labels": ["a", "b", "c"]}}), cases)
    generate_app(artifact, tmp_path / "app", AppOptions())
    assert app_manifest(tmp_path / "app")["outputs"][0]["activation"] == activation


def values_of(**outputs):
    """A golden case of zeros, by the shapes of the outputs."""
    given = {"x": np.zeros((1, 3, 4, 4), np.float32)}
    return [Case("example", "compare", (Step(given, {k: np.zeros(v, np.float32) for k, v in outputs.items()}),))]


def test_a_map_whose_last_dimension_happens_to_match_is_no_classifier(artifact_of, tmp_path):
    def maps(manifest):
        manifest.update(model={"card": {"labels": ["a", "b", "c"]}})
        manifest["methods"][0]["outputs"][0].update(shape=[1, 1, 3])

    app = generate_app(artifact_of(maps, values_of(output_0=(1, 1, 3))), tmp_path / "app", AppOptions())
    assert app.shows == "tensors"
    assert "labels are left out" in app.notices[0]


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"output_0": (100, 3)}, "no float output has 3 values"),  # a hundred boxes of three numbers, one picture
        ({"output_0": (1, 3), "embedding": (1, 3)}, "each of the outputs output_0, embedding has 3 values a row"),
    ],
)
def test_labels_name_one_row_of_scores_for_each_input_and_one_output(artifact_of, tmp_path, shapes, words):
    def change(manifest):
        manifest.update(model={"card": {"labels": ["a", "b", "c"]}})
        manifest["methods"][0]["outputs"] = [
            {"name": name, "dtype": "float32", "shape": list(shape)} for name, shape in shapes.items()
        ]

    artifact = artifact_of(change, values_of(**shapes))
    app = generate_app(artifact, tmp_path / "app", AppOptions())
    assert app.shows == "tensors" and words in app.notices[0]
    assert not [output for output in app_manifest(app.path)["outputs"] if output["activation"]]
    with pytest.raises(EdgexError, match=words):
        generate_app(artifact, tmp_path / "given", AppOptions(labels=("a", "b", "c")))


def test_boxes_and_pictures_come_from_the_card(artifact_of, tmp_path):
    image = {"image": {"input": "x", "layout": "NCHW"}}
    detection = {"boxes": "b", "scores": "output_0", "format": "cxcywh", "units": "shares", "max_overlap": 0.5}

    def boxes(manifest):
        manifest.update(model={"card": {**image, "labels": ["a", "b"], "detection": detection}})
        manifest["methods"][0]["outputs"] = [
            {"name": "output_0", "dtype": "float32", "shape": [1, 7, 2]},
            {"name": "b", "dtype": "float32", "shape": [1, 7, 4]},
        ]

    artifact = artifact_of(boxes, values_of(output_0=(1, 7, 2), b=(1, 7, 4)))
    app = generate_app(artifact, tmp_path / "boxes", AppOptions())
    manifest = app_manifest(app.path)
    assert (app.shows, manifest["note"], manifest["labels"]) == ("boxes", None, ["a", "b"])
    assert manifest["detection"] == {
        "boxes": 1, "scores": 0, "classes": None, "format": "cxcywh", "in_pixels": False, "activation": "none",
        "background": None, "min_score": 0.5, "max_overlap": 0.5,
    }  # fmt: skip

    def painted(manifest):
        manifest.update(model={"card": {**image, "output_image": {"output": "output_0", "layout": "NCHW"}}})
        manifest["methods"][0]["outputs"][0].update(shape=[1, 3, 8, 8])

    app = generate_app(artifact_of(painted, values_of(output_0=(1, 3, 8, 8))), tmp_path / "paints", AppOptions())
    assert app.shows == "picture"
    assert app_manifest(app.path)["outputs"][0]["image"]["mean"] == [0.0] * 3
    plain = generate_app(artifact_of(lambda m: m.update(model={"card": image})), tmp_path / "plain", AppOptions())
    assert "Nothing says what these outputs mean" in app_manifest(plain.path)["note"]


def test_labels_of_the_card_that_do_not_fit_are_left_out_and_said(artifact_of, tmp_path):
    artifact = artifact_of(lambda manifest: manifest.update(model={"card": {"labels": ["a"]}}))
    app = generate_app(artifact, tmp_path / "app", AppOptions())
    assert app_manifest(app.path)["labels"] == []
    assert "labels are left out" in app.notices[0]


def test_a_pushed_model_is_not_in_the_app(artifact_of, tmp_path):
    app = generate_app(artifact_of(), tmp_path / "app", AppOptions(model_source="push"))
    assert not list(app.path.rglob("*.pte"))
    assert app_manifest(app.path)["model"]["source"] == "push"


@pytest.mark.parametrize(("delivery", "source"), [("install-time", "asset"), ("on-demand", "pack")])
def test_a_pack_of_google_plays_holds_the_model(artifact_of, tmp_path, delivery, source):
    app = generate_app(artifact_of(), tmp_path / "app", AppOptions(delivery=delivery))
    held = [path.relative_to(app.path).as_posix() for path in app.path.rglob("*.pte")]
    assert held == ["modelpack/src/main/assets/edgex/tiny/model.pte"]
    assert app_manifest(app.path)["model"]["source"] == source
    build = (app.path / "modelpack/build.gradle.kts").read_text()
    assert 'id("com.android.ai-pack")' in build and f'deliveryType = "{delivery}"' in build
    assert 'include(":model", ":app", ":modelpack")' in (app.path / "settings.gradle.kts").read_text()
    assert 'assetPacks += listOf(":modelpack")' in (app.path / "app/build.gradle.kts").read_text()
    later = "com.google.android.play:ai-delivery" in (app.path / "model/build.gradle.kts").read_text()
    code = (app.path / "model/src/main/kotlin/dev/edgex/model/PackDelivery.kt").read_text()
    assert later == ("AiPackManagerFactory" in code) == (delivery == "on-demand")
    assert not (app.path / VARIANTS).exists()


def test_a_model_that_no_pack_may_hold_is_refused(artifact_of, tmp_path, monkeypatch):
    from edgex.export.android import delivery

    monkeypatch.setattr(delivery, "PACK_BYTES", 10)
    with pytest.raises(EdgexError, match="Google Play takes packs") as refusal:
        generate_app(artifact_of(), tmp_path / "app", AppOptions(delivery="on-demand"))
    assert refusal.value.exit_code == 2


def test_a_model_that_is_too_large_for_a_store_is_said(artifact_of, tmp_path, monkeypatch):
    from edgex.export.android import generate

    monkeypatch.setattr(generate, "_STORE_BYTES", 10)
    app = generate_app(artifact_of(), tmp_path / "app", AppOptions())
    assert "--delivery install-time" in app.notices[0]
    packed = generate_app(artifact_of(), tmp_path / "packed", AppOptions(delivery="install-time"))
    assert packed.notices == ()
    assert generate_app(artifact_of(), tmp_path / "other", AppOptions(model_source="push")).notices == ()


def io_dtype(kind, dtype):
    return lambda manifest: manifest["methods"][0][kind][0].update(dtype=dtype)


def on_openvino(manifest):
    """A manifest of another engine, whose target and requirements agree with it."""
    manifest.update(target="openvino", engine="openvino")
    manifest["requirements"]["engine"] = "openvino"


NO_SUCH_OUTPUT = {"boxes": "b", "scores": "s", "format": "xyxy", "units": "pixels"}


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (io_dtype("inputs", "bool"), 5, "input 'x' is bool"),
        (io_dtype("inputs", "int16"), 5, "int16"),
        (io_dtype("inputs", "bfloat16"), 5, "bfloat16"),
        (io_dtype("outputs", "bool"), 5, "cannot give"),
        (lambda m: m["methods"][0]["inputs"][0].update(shape=[1 << 20, 1 << 12]), 5, "2 GiB"),
        (on_openvino, 2, "openvino runs it"),
        (lambda m: m["requirements"].update(plugins=["onednn"]), 2, "plug-in onednn"),
        (lambda m: m["methods"].append({**m["methods"][0], "name": "decode"}), 2, "methods forward, decode"),
        (lambda m: m["producer"].update(executorch="1.5.0"), 7, "1.5.0"),
        (lambda m: m["producer"].pop("executorch"), 7, "unknown"),
        (lambda m: m.update(model={"card": {"image": {"input": "y"}}}), 2, "no input 'y'"),
        (lambda m: m.update(model={"card": {"image": {"layout": "NCHW"}}}), 2, "model card's `image`"),
        (lambda m: m.update(model={"card": {"output_image": {"output": "z"}}}), 2, "no output 'z'"),
        (lambda m: m.update(model={"card": {"detection": {"boxes": "b", "scores": "s"}}}), 2, "has the format None"),
        (lambda m: m.update(model={"card": {"detection": NO_SUCH_OUTPUT}}), 2, "names an output 'b'"),
    ],
)
def test_what_an_app_cannot_take_is_refused_before_anything_is_written(artifact_of, tmp_path, change, code, words):
    artifact = artifact_of(change)
    with pytest.raises(EdgexError) as refusal:
        generate_app(artifact, tmp_path / "app", AppOptions())
    assert refusal.value.exit_code == code
    assert words in str(refusal.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made"]


def test_a_backend_that_the_library_lacks_is_refused(artifact_of, tmp_path, monkeypatch):
    from edgex.export.android.engine import executorch

    summary = executorch.read_pte(artifact_of().file(".pte"))
    for backend, fix in (("VulkanBackend", "--flavor vulkan"), ("QnnBackend", "-t xnnpack")):
        other = type(summary)((backend,), summary.operators, summary.planned_arena_bytes)
        monkeypatch.setattr(executorch, "read_pte", lambda path, other=other: other)
        with pytest.raises(EdgexError, match=backend) as refusal:
            generate_app(artifact_of(), tmp_path / "app", AppOptions())
        assert refusal.value.exit_code == 5
        assert fix in refusal.value.fix


@pytest.mark.parametrize(
    "options",
    [
        AppOptions(labels=("a", "b")),
        AppOptions(image=ImageInput("x", "NHWC", "RGB", (0.0,) * 3, (1.0,) * 3)),
        AppOptions(image=ImageInput("x", "NCHW", "RGB", (0.0,) * 3, (0.0,) * 3)),
        AppOptions(image=ImageInput("x", "NCHW", "RGB", (0.0,) * 2, (1.0,) * 3)),
        AppOptions(image=ImageInput("x", "NCHW", "RGB", (0.0,) * 4, (1.0,) * 3)),
        AppOptions(image=ImageInput("x", "NCHW", "RGB", (float("nan"),) * 3, (1.0,) * 3)),
    ],
)
def test_choices_that_do_not_fit_are_refused(artifact_of, tmp_path, options):
    with pytest.raises(EdgexError) as refusal:
        generate_app(artifact_of(), tmp_path / "app", options)
    assert refusal.value.exit_code == 2


def test_mean_and_std_that_would_not_count_are_refused(artifact_of, tmp_path):
    artifact = artifact_of(io_dtype("inputs", "uint8"))
    scaled = AppOptions(image=ImageInput("x", "NCHW", "RGB", (0.5,) * 3, (1.0,) * 3))
    with pytest.raises(EdgexError, match="bytes as they are") as refusal:
        generate_app(artifact, tmp_path / "app", scaled)
    assert (refusal.value.exit_code, refusal.value.fix) == (2, "--image-input x:0,1")
    plain = AppOptions(image=ImageInput("x", "NCHW", "RGB", (0.0,) * 3, (1.0,) * 3))
    assert generate_app(artifact, tmp_path / "app", plain).screen == "image"


def test_an_artifact_without_golden_data_is_refused(artifact_of, tmp_path):
    with pytest.raises(ArtifactError, match="no golden data to replay"):
        generate_app(artifact_of(cases=[Case("big", "skipped", reason="too large")]), tmp_path / "app", AppOptions())


def test_an_existing_folder_is_kept(artifact_of, tmp_path):
    artifact = artifact_of()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("precious")
    for force in (False, True):
        with pytest.raises(EdgexError, match="not an app that edgex wrote"):
            generate_app(artifact, mine, AppOptions(), force=force)
    assert (mine / "notes.txt").read_text() == "precious"
    app = generate_app(artifact, tmp_path / "app", AppOptions())
    with pytest.raises(EdgexError, match="exists"):
        generate_app(artifact, app.path, AppOptions())
    for name in ("keystore.properties", "app/upload.jks", "build/old.txt"):
        (app.path / name).parent.mkdir(exist_ok=True)
        (app.path / name).write_text("precious")
    generate_app(artifact, app.path, AppOptions(name="Again"), force=True)
    assert "Again" in (app.path / RESOURCES / "values/app_name.xml").read_text()
    assert (app.path / "app/upload.jks").read_text() == (app.path / "keystore.properties").read_text() == "precious"
    assert not (app.path / "build").exists()
    with pytest.raises(EdgexError, match="within the artifact"):
        generate_app(artifact, artifact.path / "app", AppOptions())


def test_a_failed_write_leaves_nothing(artifact_of, tmp_path, monkeypatch):
    from edgex.export.android import project

    def full(source, target):
        raise OSError(28, "No space left on device")

    artifact = artifact_of()
    monkeypatch.setattr(project.shutil, "copyfile", full)
    with pytest.raises(ArtifactError, match="cannot write") as failure:
        generate_app(artifact, tmp_path / "app", AppOptions())
    assert "No space left" in str(failure.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made"]


def test_a_sample_without_its_template_line_is_noticed():
    identity = Identity("a.b", "n", "p", "1", "org.pytorch:executorch-android:1.5.1")
    with pytest.raises(ValueError, match="matches 0 times"):
        fill_template("settings.gradle.kts", "include(1)", identity)


@pytest.mark.parametrize(
    ("text", "kotlin", "resource"),
    [
        ("plain", '"plain"', "plain"),
        ('a"b$c\\', r'"a\"b\$c\\"', 'a\\"b$c\\\\'),
        ("@home", '"@home"', r"\@home"),
        ("it's <b>&", '"it\'s <b>&"', r"it\'s &lt;b&gt;&amp;"),
    ],
)
def test_texts_are_escaped_for_their_format(text, kotlin, resource):
    assert kotlin_text(text) == kotlin
    assert resource_text(text) == resource
