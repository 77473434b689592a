"""The Android project as far as Python can check it: resources, components, layers, the launcher."""

import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from edgex.export.android.project import PROJECT
from edgex.runtime.artifact.artifact import hash_file

KOTLIN = "app/src/main/kotlin"
LIBRARY_KOTLIN = "model/src/main/kotlin/dev/edgex/model"
RESOURCES = "app/src/main/res"
ANDROID = "{http://schemas.android.com/apk/res/android}"


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
    """What the unit tests run off the device imports nothing of Android but its org.json."""
    library = PROJECT / LIBRARY_KOTLIN
    of_android = {
        "AndroidPlatform",
        "DeviceProbe",
        "EdgeModel",
        "ModelStore",
        "PackDelivery",
        "PictureLoader",
        "Pictures",
    }
    naming = {
        path.stem
        for path in (*library.rglob("*.kt"), *(PROJECT / KOTLIN / "dev/edgex/sample/job").glob("*.kt"))
        if re.search(r"^import android", path.read_text(), re.M)
    }
    assert naming == of_android
    importing = [p.name for p in PROJECT.rglob("*.kt") if "import org.pytorch" in p.read_text()]
    assert importing == ["ExecuTorchEngine.kt"]


def test_the_library_knows_nothing_of_the_app():
    for path in (PROJECT / "model").rglob("*.kt"):
        assert "dev.edgex.sample" not in path.read_text(), path.name


def test_the_pinned_library_is_the_one_of_the_map():
    from edgex.export.android.engine.versions import EXECUTORCH_AARS

    text = (PROJECT / "model/build.gradle.kts").read_text()
    assert re.search(r'"org\.pytorch:executorch-android:(.*)"$', text, re.M)[1] in EXECUTORCH_AARS.values()


def test_versions_are_locked_and_readme_and_ci_say_how():
    """Which versions and hashes those are, a build with a network writes; none is made up here."""
    assert "lockAllConfigurations()" in (PROJECT / "build.gradle.kts").read_text()
    command = r"\./gradlew --write-locks --write-verification-metadata sha256 .*assembleRelease"
    assert re.search(command, (PROJECT / "README.md").read_text())
    workflow = (PROJECT / ".github/workflows/android.yml").read_text()
    for name in ("model/gradle.lockfile", "app/gradle.lockfile", "gradle/verification-metadata.xml"):
        assert name in workflow and not (PROJECT / name).exists()
    named = [
        text for path in PROJECT.rglob("*.kts") for text in re.findall(r'"[\w.-]+:[\w.-]+:([^"]+)"', path.read_text())
    ]
    assert named and not [version for version in named if re.search(r"[+\[\]]|latest|SNAPSHOT", version)]


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
