"""`make android-check`: compile, test, assemble and validate the Android app with what can be had without Google's SDK.

    python tests/android/check.py [FOLDER]      FOLDER is kept, and what was exported there is not exported again

Of a model of every kind, exported first, the app is generated twice and must come out equal. Then: resources link; the
Kotlin compiles with -Werror, and calls only what Android's published method list has; the logic passes its tests, on
the golden data of every app; edgex reads the app's report; the app reads the jobs of `--device adb`, and edgex its
answers; D8 takes the classes; an APK and an AAB of each model are assembled, signed and validated; the engines beside
ExecuTorch compile, and ONNX Runtime's runs on its build for Linux. What it does not: Gradle with Google's plugin, ART,
a device. The APKs hold no fbjni and an older ExecuTorch, so they would not run; they are thrown away.
"""

import json
import shutil
import sys
import tempfile
import time
import zipfile
from functools import partial
from pathlib import Path

import api
import class_file
import engines
import packages
from process import export, join, require, run
from text_check import compare_ids, make_reader
from tools import FRAMEWORK, JSON, JUNIT, fetch_tools, missing_packages

ROOT = Path(__file__).parent.parent.parent
STUBS, RUNS = Path(__file__).parent / "stubs", Path(__file__).parent / "runs"
APPLICATION = "dev.edgex.app.check"
KOTLIN = Path("src") / "main" / "kotlin" / "dev" / "edgex" / "model"
SOURCES = Path("samples") / "android" / "model" / KOTLIN
# A model of every kind: dynamic, a classifier of sound, text, state, boxes, and one that may record.
_SAMPLES = ("digits", "keyword_spotter", "sentence_encoder", "decoder")
_OWN = ("detector", "listener")
MODELS = (
    *(ROOT / "samples" / f"{name}.py" for name in _SAMPLES),
    *(Path(__file__).parent / "models" / f"{name}.py" for name in _OWN),
)


class Check:
    """The steps, in order; each takes what the ones before left in `work`."""

    def __init__(self, tools, work, apps, artifact=None):
        self.tools, self.work, self.apps, self.artifact = tools, work, apps, artifact
        # Sources are the same for every model, so the first one's are compiled.
        self.app = apps[0]
        self.main, self.model = self.app / "app" / "src" / "main", self.app / "model" / "src" / "main"

    @property
    def application(self):
        return APPLICATION

    def java(self, *arguments):
        # Each of these runs is short: the quick compiler and collector cost half the processor time.
        return run("java", "-Xmx1500m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *arguments)

    def classes_of(self, name):
        folder = self.work / name
        folder.mkdir(exist_ok=True)
        return folder

    def write_manifest(self, app):
        """What Gradle's plugin does: the placeholder, the instrumentation that is to be removed, libraries unpacked."""
        text = (app / "app" / "src" / "main" / "AndroidManifest.xml").read_text()
        cut = text.index("    <!-- ExecuTorch's AAR declares")
        text = text[:cut] + text[text.index("</manifest>") :]
        text = text.replace("${applicationId}", APPLICATION).replace(
            "<manifest ", f'<manifest package="{APPLICATION}" ', 1
        )
        # Libraries are mapped from the APK as they are, for which they must lie on pages.
        text = text.replace("<application", '<application android:extractNativeLibs="false"', 1)
        for name in (
            "SampleApplication",
            "MainActivity",
            "BenchmarkActivity",
            "DetailsActivity",
            "BenchInstrumentation",
        ):
            text = text.replace(f'"\x2e{name}"', f'"dev.edgex.sample.{name}"')
        (self.work / "AndroidManifest.xml").write_text(text)

    def link(self, app, output, *more):
        """The resources of an app, with the assets of its library."""
        self.write_manifest(app)
        run("aapt2", "compile", "--dir", app / "app" / "src" / "main" / "res", "-o", self.work / "resources.zip")
        run(
            "aapt2", "link", "-I", FRAMEWORK, "--manifest", self.work / "AndroidManifest.xml",
            "--min-sdk-version", "26", "--target-sdk-version", "36", "--version-code", "1", "--version-name", "1",
            "-A", app / "model" / "src" / "main" / "assets", "-0", ".pte", "-0", ".bin", "-o", output, *more,
            self.work / "resources.zip",
        )  # fmt: skip

    def resources(self):
        generated = self.classes_of("generated")
        self.link(self.app, self.work / "base.apk", "--java", generated, "--custom-package", "dev.edgex.sample")
        return "aapt2 compiled and linked the resources"

    def kotlin(self, output, sources, class_path, *more):
        sources = sources if isinstance(sources, list) else [sources]
        lib = self.tools.kotlin
        names = ("compiler", "stdlib", "script-runtime", "reflect", "daemon-client")
        jars = [lib / f"kotlin-{name}.jar" for name in names] + [
            *lib.glob("trove4j*.jar"),
            *lib.glob("annotations-*.jar"),
        ]
        jars += [*lib.glob("kotlinx-coroutines-core-jvm.jar")]
        self.java(
            "-cp", join(jars), "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", "-Werror", "-language-version", "2.2",
            # Gradle compiles for 17; this dexer is older than the sealed classes that this would bring.
            "-jvm-target", "11", "-no-reflect", "-no-stdlib", "-cp", join(class_path), "-d", output, *more, *sources,
        )  # fmt: skip

    def compile(self):
        stubs, resources, library, app = (self.classes_of(name) for name in ("stubs", "r", "library", "classes"))
        run("javac", "-nowarn", "-d", stubs, *STUBS.rglob("*.java"))
        run("javac", "-nowarn", "-d", resources, *(self.work / "generated").rglob("*.java"))
        executorch = self.tools.executorch / "android" / "libs" / "classes.jar"
        # The library by itself, as an existing app takes it.
        self.kotlin(library, self.model / "kotlin", [stubs, executorch, JSON, self.stdlib])
        self.kotlin(app, self.main / "kotlin", [stubs, resources, library, JSON, self.stdlib])
        shared = {path.name for path in (ROOT / SOURCES).glob("*.kt")}
        own = [
            path
            for made in self.apps[1:]
            for path in sorted((made / "model" / KOTLIN).glob("*.kt"))
            if path.name not in shared
        ]
        require(len(own) == len(self.apps) - 1, f"not one class for each model: {own}")
        with_flow = [library, stubs, self.stdlib, self.coroutines]
        self.kotlin(self.classes_of("models"), own, with_flow)
        return f"kotlinc compiled library, app and the classes of {len(own)} other models, with -Werror"

    @property
    def coroutines(self):
        return self.tools.kotlin / "kotlinx-coroutines-core-jvm.jar"

    @property
    def stdlib(self):
        return self.tools.kotlin / "kotlin-stdlib.jar"

    def calls(self):
        classes = api.read_list(self.tools.api / api.LIST)
        named = set()
        for path in self.compiled():
            named |= class_file.read_members(path.read_bytes())
        wrong = api.check_calls(named, classes)
        require(not wrong, "\n".join(wrong))
        # The check itself: an invented method, a wrong number of parameters, a method that is too new.
        for member in (
            ("android/app/Activity", "fly", "()V"),
            ("android/app/Activity", "setContentView", "(IIII)V"),
            ("android/view/View", "setFrameContentVelocity", "(F)V"),
        ):
            require(api.check_calls({member}, classes), f"{member} was not noticed")
        count = sum(owner.startswith("android/") for owner, _, _ in named)
        return f"{count} members of Android exist with that many parameters since API {api.MIN_SDK} or behind a check"

    def compiled(self):
        """The class files of library and app."""
        return sorted(path for name in ("library", "classes", "models") for path in (self.work / name).rglob("*.class"))

    def tests(self):
        tests, own = self.classes_of("tests"), [self.work / name for name in ("library", "classes")]
        lib = [*own, self.work / "stubs", self.stdlib, JSON, *JUNIT]
        sources = [self.app / module / "src" / "test" / "kotlin" for module in ("model", "app")]
        # The test for a device is compiled with them, and not run here.
        on_device = self.app / "model" / "src" / "androidTest" / "kotlin"
        self.kotlin(tests, [*sources, on_device], lib, f"-Xfriend-paths={','.join(map(str, own))}")
        files = sorted((path, root) for root in sources for path in root.rglob("*Test.kt"))
        names = [".".join(path.relative_to(root).with_suffix("").parts) for path, root in files]
        assets = [path for app in self.apps for path in (app / "model" / "src" / "main" / "assets" / "edgex").iterdir()]
        folders = join(assets)
        printed = self.java(
            f"-Dedgex.assets={folders}", f"-Dedgex.pillow={self.pictures()}",
            f"-Dedgex.report={self.work / 'report.json'}", f"-Dedgex.job={self.job()}", "-cp", join([tests, *lib]),
            "org.junit.runner.JUnitCore", *names,
        )  # fmt: skip
        return "JUnit: " + next(line for line in printed.splitlines() if line.startswith("OK"))

    def job(self):
        """A job as edgex sends it, for the app's code to read; the test leaves its answer beside it."""
        from edgex.runtime.artifact.artifact import open_artifact
        from edgex.runtime.artifact.golden import read_golden
        from edgex.runtime.execute.adb.job import write_job
        from edgex.runtime.execute.request import RunRequest

        folder = self.classes_of("job")
        artifact = open_artifact(self.artifact)
        steps = next(case.steps for case in read_golden(artifact) if case.kind == "compare")
        request = RunRequest((tuple(step.inputs for step in steps),), threads=2, warmup=3, runs=40)
        write_job(folder, artifact, request, request.sequences, "0123abcd")
        return folder

    def answer(self):
        from edgex.runtime.artifact.artifact import open_artifact
        from edgex.runtime.engines.executorch.pte import read_pte
        from edgex.runtime.execute.adb.answer import parse, require_model, require_run
        from edgex.runtime.execute.adb.convert import make_result
        from edgex.runtime.execute.adb.tasks import Reply
        from edgex.runtime.execute.request import DeviceInfo

        artifact = open_artifact(self.artifact)
        document = parse((self.work / "job" / "answer.json").read_bytes(), "check")
        require_run(document, "0123abcd", "check")
        require_model(document, artifact.manifest.file(".pte").sha256, "check")
        reply, program = Reply(document, "check"), read_pte(artifact.file(".pte"))
        answer = make_result(reply, [document], (), DeviceInfo("adb", "check"), program, "check")
        require(sum(map(len, answer.rounds)) == 40 and answer.warmup_runs == 3, "the app took another number of runs")
        return "the app's code reads edgex's job, and edgex reads its answer"

    def pictures(self):
        """A picture and what Pillow makes of it, as raw RGB."""
        import numpy as np
        from PIL import Image

        folder = self.classes_of("pictures")
        generator = np.random.default_rng(0)
        y, x = np.mgrid[0:47, 0:61]
        waves = np.stack([np.sin(x / 5) * 120 + 128, np.cos(y / 4) * 120 + 128, (x * y) % 256], -1)
        pixels = (waves + generator.normal(0, 10, waves.shape)).clip(0, 255).astype(np.uint8)
        picture = Image.fromarray(pixels)
        (folder / "big-61x47.rgb").write_bytes(picture.tobytes())
        for size in ((7, 5), (30, 40), (96, 96)):
            small = picture.resize(size, Image.Resampling.BILINEAR)
            (folder / f"small-{size[0]}x{size[1]}.rgb").write_bytes(small.tobytes())
        return folder

    def report(self, path=None):
        from edgex.runtime.measure.profile.report import ProfileReport
        from edgex.runtime.measure.statistics import summarize

        report = ProfileReport.from_json(json.loads((path or self.work / "report.json").read_text()))
        again = summarize(report.rounds)
        for name in ("n", "min", "median", "mean", "p90", "p95", "p99", "mad", "outlier_share"):
            ours, theirs = getattr(again, name), getattr(report.steady, name)
            require(ours == theirs or abs(ours - theirs) < 1e-12, f"{name}: {theirs} on the device, {ours} here")
        return "edgex reads the app's report, and its figures are those that edgex computes from its samples"

    def dex(self):
        out = self.classes_of("dex")
        app = self.compiled() + sorted((self.work / "r").rglob("*.class"))
        executorch = self.tools.executorch / "android" / "libs" / "classes.jar"
        self.java(
            "-cp", self.tools.bundletool, "com.android.tools.r8.D8", "--release", "--min-api", "26",
            "--lib", self.platform_jar(), "--lib", JSON, "--output", out, *app,
            executorch, self.stdlib, self.coroutines,
        )  # fmt: skip
        header = (out / "classes.dex").read_bytes()[:8]
        require(header.startswith(b"dex\n"), "D8 wrote no dex file")
        return f"D8 made dex version {header[4:7].decode()}"

    def platform_jar(self):
        """The stubs as a library for the dexer."""
        path = self.work / "platform.jar"
        with zipfile.ZipFile(path, "w") as jar:
            for entry in sorted((self.work / "stubs").rglob("*.class")):
                jar.write(entry, entry.relative_to(self.work / "stubs"))
        return path

    def texts(self):
        """A library with a tokenizer: its class compiles, and it makes the ids that Hugging Face's tokenizers make."""
        made = make_reader(self.work / "reader")
        library, words = [self.work / "library", self.work / "stubs", JSON, self.stdlib], self.classes_of("words")
        self.kotlin(words, [RUNS / "WordPieceRun.kt", made / KOTLIN / "ReaderModel.kt"], library)
        count = compare_ids(made, lambda *given: self.java("-cp", join([words, *library]), "WordPieceRunKt", *given))
        return f"a library with a tokenizer makes the ids of {count} texts that Hugging Face's tokenizers make"


def make_apps(folder):
    """(apps, artifact of the first): every model exported, and its app generated twice."""
    apps = []
    for source in MODELS:
        export(source, "xnnpack", folder)
        shutil.rmtree(folder / source.stem, ignore_errors=True)
        made = [folder / source.stem / number / "app" for number in ("first", "second")]
        for path in made:
            artifact = folder / f"{source.stem}.xnnpack.edgex"
            path.parent.mkdir(parents=True)
            run(sys.executable, "-m", "edgex", "android", artifact, "-o", path, "--application-id", APPLICATION)
        files = [{p.relative_to(app): p.read_bytes() for p in app.rglob("*") if p.is_file()} for app in made]
        require(files[0] == files[1], f"two apps of {source.stem} differ")
        apps.append(made[0])
    return apps, folder / f"{MODELS[0].stem}.xnnpack.edgex"


def main():
    if missing := missing_packages():
        sys.exit(f"not checked: apt-get install {' '.join(missing)}")
    tools = fetch_tools(ROOT / ".android-check")
    with tempfile.TemporaryDirectory(prefix="edgex-android-") as folder:
        work, started = Path(sys.argv[1] if sys.argv[1:] else folder).resolve(), time.monotonic()
        apps, artifact = make_apps(work / "models")
        print(f"{len(apps)} models exported, their apps equal twice  ({time.monotonic() - started:.0f} s)", flush=True)
        check = Check(tools, work, apps, artifact)
        own = (check.resources, check.compile, check.calls, check.tests, check.report, check.answer, check.dex)
        shared = (packages.build_all, packages.add_pack, engines.run_onnxruntime, engines.run_litert, engines.run_qnn)
        for step in (
            *own,
            *(partial(step, check) for step in shared),
            check.texts,
            partial(engines.run_language, check),
        ):
            started = time.monotonic()
            print(f"{step()}  ({time.monotonic() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
