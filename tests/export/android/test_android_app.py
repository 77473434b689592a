"""`edgex android`: what is generated is whole, says what the artifact says, and is the same every time."""

import json
import re
import shutil
import subprocess
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import torch
from pte_support import Call, captured, write_artifact

from edgex.errors import ArtifactError, EdgexError
from edgex.export.android.generate import ASSETS, BUNDLE_FILE, PROJECT, generate_app
from edgex.export.android.options import AppOptions
from edgex.export.android.templates import TEMPLATES, Identity, fill_template, kotlin_text, resource_text
from edgex.runtime.artifact.artifact import hash_file, open_artifact
from edgex.runtime.artifact.card import ImageInput
from edgex.runtime.artifact.golden import Case, Step, write_golden
from edgex.runtime.artifact.manifest import FileEntry

KOTLIN = "app/src/main/kotlin"
RESOURCES = "app/src/main/res"
ANDROID = "{http://schemas.android.com/apk/res/android}"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A .pte artifact of a classifier of pictures [1, 3, 4, 4] into three classes, without golden data."""
    head = torch.nn.Linear(48, 3)
    with torch.no_grad():
        head.weight.copy_(torch.randn(3, 48, generator=torch.Generator().manual_seed(0)))
    module = Call(lambda self, x: self.m[0](x.flatten(1)), head)
    folder = tmp_path_factory.mktemp("android") / "tiny.xnnpack.edgex"
    write_artifact(captured(module, torch.rand(1, 3, 4, 4)), folder)
    return folder


@pytest.fixture
def artifact_of(program, tmp_path):
    """Make a copy with golden data and with changes to its manifest; opened."""

    def make(change=lambda manifest: None, cases=None):
        folder = tmp_path / "made" / program.name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(program, folder)
        manifest = json.loads((folder / "manifest.json").read_text())
        inputs, outputs = manifest["methods"][0]["inputs"], manifest["methods"][0]["outputs"]
        if cases is None:
            x, y = np.linspace(0, 1, 48, dtype=np.float32).reshape(1, 3, 4, 4), np.array([[1, -2, 3]], np.float32)
            step = Step({inputs[0]["name"]: x}, {outputs[0]["name"]: y})
            cases_ = [Case("example", "compare", (step,)), Case("turned", "compare", (step,), "transposed")]
        else:
            cases_ = cases
        write_golden(folder, cases_)
        manifest["producer"] = {"edgex": "0.1.0", "executorch": "1.5.1"}
        manifest["files"] += [
            vars(FileEntry(f"golden/{p.name}", p.stat().st_size, hash_file(p))) for p in (folder / "golden").iterdir()
        ]
        change(manifest)
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return open_artifact(folder)

    return make


def app_manifest(folder):
    return json.loads((folder / ASSETS / "manifest.json").read_text())


def content(folder):
    return {str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_mode) for p in folder.rglob("*") if p.is_file()}


def test_the_app_holds_what_it_needs(artifact_of, tmp_path):
    artifact = artifact_of()
    app = generate_app(artifact, tmp_path / "app", AppOptions())
    manifest = app_manifest(app.path)
    assert (app.path / ASSETS / "model.pte").read_bytes() == artifact.file(".pte").read_bytes()
    assert manifest["model"]["sha256"] == hash_file(artifact.file(".pte"))
    assert manifest["model"]["backends"] == ["XnnpackBackend"]
    assert manifest["inputs"][0]["shape"] == [1, 3, 4, 4]
    assert [case["name"] for case in manifest["golden"]] == ["example"], "memory order is not the app's matter"
    entry = manifest["golden"][0]["steps"][0]["outputs"][0]
    values = np.frombuffer((app.path / ASSETS / entry["file"]).read_bytes(), "<f4").reshape(entry["shape"])
    np.testing.assert_array_equal(values, [[1, -2, 3]])
    assert (app.path / "gradlew").stat().st_mode & 0o111
    assert app.screen == "tensors"


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
        if path.is_file() and path.read_bytes() != (app.path / path.relative_to(PROJECT)).read_bytes()
    }
    assert differing == set(TEMPLATES)
    assert 'applicationId = "com.acme.pictures"' in (app.path / "app/build.gradle.kts").read_text()
    assert '"org.pytorch:executorch-android-vulkan"' in (app.path / "gradle/libs.versions.toml").read_text()
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


def test_labels_of_the_card_that_do_not_fit_are_left_out_and_said(artifact_of, tmp_path):
    artifact = artifact_of(lambda manifest: manifest.update(model={"card": {"labels": ["a"]}}))
    app = generate_app(artifact, tmp_path / "app", AppOptions())
    assert app_manifest(app.path)["labels"] == []
    assert "labels are left out" in app.notices[0]


def test_a_pushed_model_is_not_in_the_app(artifact_of, tmp_path):
    app = generate_app(artifact_of(), tmp_path / "app", AppOptions(model_source="push"))
    assert not list(app.path.rglob("*.pte"))
    assert app_manifest(app.path)["model"]["source"] == "push"


def test_a_model_that_is_too_large_for_a_store_is_said(artifact_of, tmp_path, monkeypatch):
    from edgex.export.android import generate

    monkeypatch.setattr(generate, "_STORE_BYTES", 10)
    app = generate_app(artifact_of(), tmp_path / "app", AppOptions())
    assert "asset pack" in app.notices[0]
    assert generate_app(artifact_of(), tmp_path / "other", AppOptions(model_source="push")).notices == ()


def io_dtype(kind, dtype):
    return lambda manifest: manifest["methods"][0][kind][0].update(dtype=dtype)


def on_onnxruntime(manifest):
    """A manifest of another engine, whose target and requirements agree with it."""
    manifest.update(target="onnx-cpu", engine="onnxruntime")
    manifest["requirements"]["engine"] = "onnxruntime"


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (io_dtype("inputs", "bool"), 5, "input 'x' is bool"),
        (io_dtype("inputs", "int16"), 5, "int16"),
        (io_dtype("inputs", "bfloat16"), 5, "bfloat16"),
        (io_dtype("outputs", "bool"), 5, "cannot give"),
        (lambda m: m["methods"][0]["inputs"][0].update(shape=[1 << 20, 1 << 12]), 5, "2 GiB"),
        (on_onnxruntime, 2, "onnxruntime runs it"),
        (lambda m: m["requirements"].update(plugins=["onednn"]), 2, "plug-in onednn"),
        (lambda m: m["producer"].update(executorch="1.5.0"), 7, "1.5.0"),
        (lambda m: m["producer"].pop("executorch"), 7, "unknown"),
        (lambda m: m.update(model={"card": {"image": {"input": "y"}}}), 2, "no input 'y'"),
        (lambda m: m.update(model={"card": {"image": {"layout": "NCHW"}}}), 2, "model card's `image`"),
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
    from edgex.export.android import generate

    summary = generate.read_pte(artifact_of().file(".pte"))
    for backend, fix in (("VulkanBackend", "--flavor vulkan"), ("QnnBackend", "-t xnnpack")):
        other = type(summary)((backend,), summary.operators, summary.planned_arena_bytes)
        monkeypatch.setattr(generate, "read_pte", lambda path, other=other: other)
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
    assert (refusal.value.exit_code, refusal.value.fix) == (2, "--image-input x:0,1,NCHW")
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
    from edgex.export.android import generate

    def full(source, target):
        raise OSError(28, "No space left on device")

    artifact = artifact_of()
    monkeypatch.setattr(generate.shutil, "copyfile", full)
    with pytest.raises(ArtifactError, match="cannot write") as failure:
        generate_app(artifact, tmp_path / "app", AppOptions())
    assert "No space left" in str(failure.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made"]


def test_a_sample_without_its_template_line_is_noticed():
    identity = Identity("a.b", "n", "p", "1", "1.5.1", "xnnpack")
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


# The project itself, as far as it can be checked without Android's tools.


def test_every_xml_file_is_well_formed():
    files = list(PROJECT.rglob("*.xml"))
    assert len(files) > 15
    for path in files:
        ET.parse(path)


def declared_resources():
    """`layout/main`, `string/run`, `id/root` and so on: what the resource folders declare."""
    found = set()
    for path in (PROJECT / RESOURCES).rglob("*.xml"):
        kind = path.parent.name.split("-")[0]
        root = ET.parse(path).getroot()
        if kind == "values":
            names = {"string-array": "array"}
            found |= {f"{names.get(item.tag, item.tag)}/{item.get('name').replace('.', '_')}" for item in root}
            found |= {f"style/{item.get('name')}" for item in root if item.tag == "style"}
        else:
            found.add(f"{kind}/{path.stem}")
        for element in root.iter():
            for value in element.attrib.values():
                if value.startswith("@+id/"):
                    found.add(value[2:])
    return found


def test_every_resource_that_is_named_exists():
    declared = declared_resources()
    used = set()
    for path in [*(PROJECT / RESOURCES).rglob("*.xml"), PROJECT / "app/src/main/AndroidManifest.xml"]:
        used |= set(re.findall(r"[\">]@(?:\+)?(\w+/[\w.]+)", path.read_text()))
    for path in (PROJECT / KOTLIN).rglob("*.kt"):
        used |= {"/".join(m) for m in re.findall(r"(?<!android\.)\bR\.(\w+)\.(\w+)", path.read_text())}
    assert used - declared == set()
    strings = {name for name in declared if name.split("/")[0] in ("string", "plurals", "layout", "color")}
    assert strings - used == set(), "nothing uses these"


def test_every_component_is_a_class_of_its_own_file():
    root = ET.parse(PROJECT / "app/src/main/AndroidManifest.xml").getroot()
    names = [e.get(f"{ANDROID}name") for e in root.iter() if (e.get(f"{ANDROID}name") or "").startswith(".")]
    assert len(names) == 5
    for name in names:
        source = PROJECT / KOTLIN / "dev/edgex/sample" / f"{name[1:]}.kt"
        assert re.search(rf"^class {name[1:]}\b", source.read_text(), re.M), name


def test_the_app_asks_for_no_permission_and_exports_little():
    root = ET.parse(PROJECT / "app/src/main/AndroidManifest.xml").getroot()
    assert not list(root.iter("uses-permission"))
    exported = {
        e.get(f"{ANDROID}name"): e.get(f"{ANDROID}permission")
        for e in root.iter()
        if e.get(f"{ANDROID}exported") == "true"
    }
    assert exported == {".MainActivity": None, ".BenchmarkActivity": "android.permission.DUMP"}


def test_day_and_night_have_the_same_colours():
    def names(folder):
        return {e.get("name") for e in ET.parse(PROJECT / RESOURCES / folder / "colors.xml").getroot()}

    assert names("values") - names("values-night") == {"icon_background"}
    assert not names("values-night") - names("values")


def test_pictures_and_fields_can_be_read_aloud():
    wrong = []
    for path in (PROJECT / RESOURCES / "layout").glob("*.xml"):
        root = ET.parse(path).getroot()
        labelled = {e.get(f"{ANDROID}labelFor", "").split("/")[-1] for e in root.iter()}
        for element in root.iter():
            name = element.get(f"{ANDROID}id", "").split("/")[-1]
            if element.tag == "ImageView" and not element.get(f"{ANDROID}contentDescription"):
                wrong.append(f"{path.name}: {name}")
            hinted = element.get(f"{ANDROID}hint") or name in labelled or path.name == "size_row.xml"
            if element.tag == "EditText" and not hinted:  # a size row gets its label in SizesCard
                wrong.append(f"{path.name}: {name}")
    assert not wrong


def test_the_logic_knows_nothing_of_android():
    for path in (PROJECT / KOTLIN / "dev/edgex/sample/core").glob("*.kt"):
        assert not re.search(r"^import (android|org\.pytorch)", path.read_text(), re.M), path.name
    importing = [p.name for p in (PROJECT / KOTLIN).rglob("*.kt") if "import org.pytorch" in p.read_text()]
    assert importing == ["ExecuTorchEngine.kt"]


def test_the_pinned_library_is_the_one_of_the_map():
    from edgex.export.android.versions import AARS

    text = (PROJECT / "gradle/libs.versions.toml").read_text()
    assert re.search(r'^executorch = "(.*)"$', text, re.M)[1] in AARS.values()


def test_no_binary_is_in_the_sample():
    for path in PROJECT.rglob("*"):
        if path.is_file():
            path.read_text(encoding="utf-8")


# The launcher, with a distribution of our own behind a file: address.


@pytest.fixture
def launcher(tmp_path):
    """(run, properties file): a project whose Gradle is a script that shows its arguments."""
    if shutil.which("java") is None or shutil.which("curl") is None:
        pytest.skip("the launcher needs java and curl")
    import zipfile

    project = tmp_path / "project"
    (project / "gradle/wrapper").mkdir(parents=True)
    shutil.copy(PROJECT / "gradlew", project / "gradlew")
    archive = tmp_path / "gradle-9.9-bin.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("gradle-9.9/bin/gradle", '#!/bin/sh\necho "gradle ran: $*"\n')
    properties = project / "gradle/wrapper/gradle-wrapper.properties"
    address = f"file://{archive}".replace(":", "\\:", 1)
    properties.write_text(f"distributionSha256Sum={hash_file(archive)}\ndistributionUrl={address}\n")

    def run(*arguments):
        env = {
            "PATH": "/usr/bin:/bin:/usr/local/bin",
            "HOME": str(tmp_path),
            "GRADLE_USER_HOME": str(tmp_path / "home"),
        }
        command = ["sh", str(project / "gradlew"), *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)

    return run, properties, archive


def test_the_launcher_downloads_once_checks_and_runs(launcher):
    run, _, archive = launcher
    first = run("assembleDebug", "two words")
    assert first.returncode == 0, first.stderr
    assert first.stdout.startswith("gradle ran: assembleDebug two words --project-dir ")
    archive.unlink()
    again = run("tasks")
    assert again.returncode == 0, again.stderr
    assert "Downloading" not in again.stderr


def test_the_launcher_runs_nothing_with_another_sum(launcher):
    run, properties, _ = launcher
    properties.write_text(re.sub("Sum=..", "Sum=00", properties.read_text()))
    done = run("tasks")
    assert done.returncode == 1
    assert "nothing of it was run" in done.stderr
    assert "gradle ran" not in done.stdout
    assert not [p for p in Path(properties.parents[3], "home").rglob("*") if p.is_file()]
