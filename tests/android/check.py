"""`make android-check`: compile, test, assemble and validate the Android app with what can be had without Google's SDK.

    python tests/android/check.py [ARTIFACT …]      default: the image classifier sample, exported first

What it proves: resources link; the Kotlin compiles with -Werror, and calls only what Android's published method list
has; the logic passes its tests, on the app's own golden data; edgex reads the app's report; the app reads the jobs of
`--device adb`, and edgex its answers; D8 takes the classes; an APK and an AAB are assembled, signed and validated. What
it does not: Gradle with Google's plugin, ART, a device. The APK holds no fbjni and an older ExecuTorch, so it would not
run; it is thrown away.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import api
import class_file
from text_check import compare_ids, make_reader
from tools import FRAMEWORK, JSON, JUNIT, fetch_tools, missing_packages

ROOT = Path(__file__).parent.parent.parent
STUBS = Path(__file__).parent / "stubs"
APPLICATION = "dev.edgex.app.check"
ABIS = ("arm64-v8a", "x86_64")
# Of memory, on devices of Android 15 and later; the store asks for it.
PAGE = 16384
KOTLIN = Path("src") / "main" / "kotlin" / "dev" / "edgex" / "model"
SOURCES = Path("samples") / "android" / "model" / KOTLIN
# A model of every kind: dynamic, a classifier of sound, text, state, boxes.
_SAMPLES = ("digits", "keyword_spotter", "sentence_encoder", "decoder")
MODELS = (*(ROOT / "samples" / f"{name}.py" for name in _SAMPLES), Path(__file__).parent / "detector.py")
# What Google's plug-in makes of modelpack/build.gradle.kts.
PACK_MANIFEST = f"""<manifest xmlns:android="http://schemas.android.com/apk/res/android"
    xmlns:dist="http://schemas.android.com/apk/distribution" package="{APPLICATION}" split="modelpack">
  <dist:module dist:type="ai-pack">
    <dist:delivery><dist:on-demand /></dist:delivery>
    <dist:fusing dist:include="true" />
  </dist:module>
  <application android:hasCode="false" />
</manifest>
"""
KEY = ("-storepass", "android", "-keypass", "android", "-alias", "check")


def run(*command, cwd=None, env=None):
    """Run, and end the check with what was printed if it fails."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(map(str, command))[:300]}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}")
    return done.stdout + done.stderr


def require(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


class Check:
    """The steps, in order; each takes what the ones before left in `work`."""

    def __init__(self, tools, work, app, artifact=None):
        self.tools, self.work, self.app, self.artifact = tools, work, app, artifact
        self.main, self.model = app / "app" / "src" / "main", app / "model" / "src" / "main"
        self.assets = self.model / "assets"

    def java(self, *arguments):
        # Each of these runs is short: the quick compiler and collector cost half the processor time.
        return run("java", "-Xmx1500m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *arguments)

    def classes_of(self, name):
        folder = self.work / name
        folder.mkdir(exist_ok=True)
        return folder

    def write_manifest(self):
        """What Gradle's plugin does: the placeholder, the instrumentation that is to be removed, libraries unpacked."""
        text = (self.main / "AndroidManifest.xml").read_text()
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

    def link(self, output, *more):
        run(
            "aapt2", "link", "-I", FRAMEWORK, "--manifest", self.work / "AndroidManifest.xml",
            "--min-sdk-version", "26", "--target-sdk-version", "36", "--version-code", "1", "--version-name", "1",
            "-A", self.assets, "-0", ".pte", "-0", ".bin", "-o", output, *more, self.work / "resources.zip",
        )  # fmt: skip

    def resources(self):
        self.write_manifest()
        run("aapt2", "compile", "--dir", self.main / "res", "-o", self.work / "resources.zip")
        generated = self.classes_of("generated")
        self.link(self.work / "base.apk", "--java", generated, "--custom-package", "dev.edgex.sample")
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
        self.kotlin(library, self.model / "kotlin", [stubs, executorch, JSON, self.stdlib, self.coroutines])
        self.kotlin(app, self.main / "kotlin", [stubs, resources, library, JSON, self.stdlib])
        return "kotlinc compiled the library, and the app against it, with -Werror"

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
        return sorted(path for name in ("library", "classes") for path in (self.work / name).rglob("*.class"))

    def tests(self):
        tests, own = self.classes_of("tests"), [self.work / name for name in ("library", "classes")]
        lib = [*own, self.work / "stubs", self.stdlib, JSON, *JUNIT]
        sources = [self.app / module / "src" / "test" / "kotlin" for module in ("model", "app")]
        # The test for a device is compiled with them, and not run here.
        on_device = self.app / "model" / "src" / "androidTest" / "kotlin"
        self.kotlin(tests, [*sources, on_device], lib, f"-Xfriend-paths={','.join(map(str, own))}")
        files = sorted((path, root) for root in sources for path in root.rglob("*Test.kt"))
        names = [".".join(path.relative_to(root).with_suffix("").parts) for path, root in files]
        folders = os.pathsep.join(str(path) for path in sorted((self.assets / "edgex").iterdir()))
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
            "--lib", self.platform_jar(), "--lib", JSON, "--output", out, *app, executorch, self.stdlib,
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

    def libraries(self):
        base = self.tools.executorch / "third-party" / "android" / "libs" / "executorch"
        return [(f"lib/{abi}/libexecutorch.so", base / abi / "libexecutorch.so") for abi in ABIS]

    def sign_with(self):
        store = self.work / "check.keystore"
        if not store.is_file():
            names = ("-dname", "CN=check", "-keyalg", "RSA", "-validity", "2")
            run("keytool", "-genkeypair", "-keystore", store, *KEY, *names)
        return store

    def apk(self):
        plain, aligned = self.work / "plain.apk", self.work / "app.apk"
        shutil.copy(self.work / "base.apk", plain)
        with zipfile.ZipFile(plain, "a") as archive:
            archive.write(self.work / "dex" / "classes.dex", "classes.dex", zipfile.ZIP_DEFLATED)
            for name, path in self.libraries():
                archive.write(path, name, zipfile.ZIP_STORED)
        run("zipalign", "-f", "-p", "4", plain, aligned)
        run(
            "apksigner", "sign", "--ks", self.sign_with(), "--ks-pass", "pass:android", "--ks-key-alias", "check",
            "--min-sdk-version", "26", aligned,
        )  # fmt: skip
        verified = run("apksigner", "verify", "--verbose", "--min-sdk-version", "26", aligned)
        require("v2 scheme (APK Signature Scheme v2): true" in verified, "the APK has no v2 signature")
        badging = run("aapt2", "dump", "badging", aligned)
        require(f"package: name='{APPLICATION}'" in badging, "the APK is called otherwise")
        require("uses-permission" not in badging, "the APK asks for a permission")
        require("launchable-activity: name='dev.edgex.sample.MainActivity'" in badging, "no launcher activity")
        with zipfile.ZipFile(aligned) as archive:
            model = next(entry for entry in archive.infolist() if entry.filename.endswith("/model.pte"))
            require(model.compress_type == zipfile.ZIP_STORED, "the model is compressed")
        return f"APK of {aligned.stat().st_size / 1e6:.0f} MB, signed (v2), no permission, model stored"

    def bundle(self):
        linked, module = self.work / "proto.apk", self.work / "base.zip"
        self.link(linked, "--proto-format")
        with zipfile.ZipFile(linked) as source, zipfile.ZipFile(module, "w", zipfile.ZIP_DEFLATED) as target:
            for name in source.namelist():
                moved = "manifest/AndroidManifest.xml" if name == "AndroidManifest.xml" else name
                target.writestr(moved, source.read(name))
            target.write(self.work / "dex" / "classes.dex", "dex/classes.dex")
            for name, path in self.libraries():
                target.write(path, name)
        settings = {
            "compression": {"uncompressedGlob": ["assets/**.pte", "assets/**.bin"]},
            "optimizations": {"uncompressNativeLibraries": {"enabled": True, "alignment": "PAGE_ALIGNMENT_16K"}},
        }
        (self.work / "BundleConfig.json").write_text(json.dumps(settings))
        bundle, tool = self.work / "app.aab", ("-jar", self.tools.bundletool)
        self.java(
            *tool,
            "build-bundle",
            f"--modules={module}",
            f"--output={bundle}",
            f"--config={self.work / 'BundleConfig.json'}",
        )
        self.java(*tool, "validate", f"--bundle={bundle}")
        store = self.sign_with()
        run("jarsigner", "-keystore", store, "-storepass", "android", "-keypass", "android", bundle, "check")
        run("jarsigner", "-verify", bundle)
        apks = self.work / "app.apks"
        self.java(
            *tool, "build-apks", f"--bundle={bundle}", f"--output={apks}", "--mode=universal", f"--ks={store}",
            "--ks-pass=pass:android", "--ks-key-alias=check", "--key-pass=pass:android",
            f"--aapt2={shutil.which('aapt2')}",
        )  # fmt: skip
        with zipfile.ZipFile(apks) as archive:
            require("universal.apk" in archive.namelist(), "bundletool made no universal APK")
            archive.extract("universal.apk", self.work)
        places = stored_places(self.work / "universal.apk", ".so")
        require(len(places) == len(ABIS), f"the universal APK holds {len(places)} stored libraries")
        require(all(place % PAGE == 0 for place in places.values()), f"a library begins within a page: {places}")
        return "AAB validated by bundletool, signed, and turned into a universal APK with libraries on pages of 16 KB"

    def pack(self):
        """The same app with its model in an AI pack, as `--delivery on-demand` writes it."""
        packed = self.work / "packed"
        run(sys.executable, "-m", "edgex", "android", self.artifact, "-o", packed, "--delivery", "on-demand")
        library = packed / "model" / "src" / "main" / "kotlin" / "dev" / "edgex" / "model"
        self.kotlin(self.classes_of("play"), library / "PackDelivery.kt", [self.work / "stubs", self.stdlib])
        (self.work / "PackManifest.xml").write_text(PACK_MANIFEST)
        linked, module = self.work / "pack.apk", self.work / "modelpack.zip"
        run(
            "aapt2", "link", "-I", FRAMEWORK, "--proto-format", "--manifest", self.work / "PackManifest.xml",
            "-A", packed / "modelpack" / "src" / "main" / "assets", "-o", linked,
        )  # fmt: skip
        base = self.work / "thin.zip"
        with zipfile.ZipFile(self.work / "base.zip") as source, zipfile.ZipFile(base, "w") as target:
            for name in source.namelist():
                if not name.endswith("/model.pte"):
                    target.writestr(name, source.read(name))
        with zipfile.ZipFile(linked) as source, zipfile.ZipFile(module, "w") as target:
            target.writestr("manifest/AndroidManifest.xml", source.read("AndroidManifest.xml"))
            for name in source.namelist():
                if name.startswith("assets/"):
                    target.writestr(name, source.read(name))
        bundle, tool = self.work / "packed.aab", ("-jar", self.tools.bundletool)
        self.java(*tool, "build-bundle", f"--modules={base},{module}", f"--output={bundle}")
        printed = self.java(*tool, "validate", f"--bundle={bundle}")
        require("modelpack" in printed, "bundletool sees no pack")
        return "AAB with the model in an on-demand AI pack, validated by bundletool"

    def onnxruntime(self):
        """The app of an `onnx-cpu` artifact compiles with ONNX Runtime's classes, and runs on its build for Linux."""
        import onnx

        folder = self.classes_of("onnx")
        run(sys.executable, "-m", "edgex", "export", ROOT / "samples" / "digits.py", "-t", "onnx-cpu", "-o", folder)
        app = folder / "app"
        run(sys.executable, "-m", "edgex", "android", folder / "digits.onnx-cpu.edgex", "-o", app)
        library, screens = self.classes_of("onnx-library"), self.classes_of("onnx-app")
        engine = [self.tools.onnxruntime, JSON, self.stdlib]
        sources = [app / "model" / "src" / "main" / "kotlin", ROOT / "tests" / "android" / "OnnxRuntimeRun.kt"]
        self.kotlin(library, sources, [self.work / "stubs", *engine])
        shared = [self.work / name for name in ("stubs", "r")]
        self.kotlin(screens, app / "app" / "src" / "main" / "kotlin", [*shared, library, *engine])
        assets = app / "model" / "src" / "main" / "assets" / "edgex" / "digits"
        # The jar's release reads the same operators, and files of an older container.
        model = onnx.load(assets / "model.onnx")
        model.ir_version = 9
        onnx.save(model, assets / "model.onnx")
        report = self.work / "onnx-report.json"
        printed = self.java("-cp", join([library, *engine]), "OnnxRuntimeRunKt", assets, report)
        self.report(report)
        return f"the app with ONNX Runtime compiles, and its library replays on Linux: {printed.splitlines()[-1]}"

    def texts(self):
        """A library with a tokenizer: its class compiles, and it makes the ids that Hugging Face's tokenizers make."""
        made = make_reader(self.work / "reader")
        library, words = [self.work / "library", self.work / "stubs", JSON, self.stdlib], self.classes_of("words")
        self.kotlin(words, [ROOT / "tests" / "android" / "WordPieceRun.kt", made / KOTLIN / "ReaderModel.kt"], library)
        count = compare_ids(made, lambda *given: self.java("-cp", join([words, *library]), "WordPieceRunKt", *given))
        return f"a library with a tokenizer makes the ids of {count} texts that Hugging Face's tokenizers make"

    def models(self):
        """Libraries of models of every kind: the same twice, and their classes compile against the library."""
        classes = []
        shared = {path.name for path in (ROOT / SOURCES).glob("*.kt")}
        for source in MODELS:
            run(sys.executable, "-m", "edgex", "export", source, "-t", "xnnpack", "-o", self.work / "models")
            artifact = self.work / "models" / f"{source.stem}.xnnpack.edgex"
            made = [self.work / f"{source.stem}-{number}" / "library" for number in (1, 2)]
            for folder in made:
                run(sys.executable, "-m", "edgex", "android", artifact, "-o", folder, "--library-only")
            files = [{p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in made]
            require(files[0] == files[1], f"two libraries of {source.stem} differ")
            own = [path for path in (made[0] / KOTLIN).glob("*.kt") if path.name not in shared]
            require(len(own) == 1, f"{source.stem} has not one class of its own")
            classes += own
        library = [self.work / "library", self.work / "stubs", self.stdlib]
        self.kotlin(self.classes_of("models-classes"), classes, library)
        return f"the classes of {len(classes)} models compile, and come out equal twice"


def stored_places(path, suffix):
    """Where in an archive the content of each file that is stored, not compressed, begins."""
    places = {}
    with zipfile.ZipFile(path) as archive, path.open("rb") as stream:
        for entry in archive.infolist():
            if entry.filename.endswith(suffix) and entry.compress_type == zipfile.ZIP_STORED:
                # The entry's own header has other extra fields than the archive's list.
                stream.seek(entry.header_offset + 26)
                name, extra = struct.unpack("<HH", stream.read(4))
                places[entry.filename] = entry.header_offset + 30 + name + extra
    return places


def join(paths):
    return os.pathsep.join(str(path) for path in paths)


def make_app(artifact, folder):
    """The app of an artifact, of the image classifier sample where none is given; and that artifact."""
    if artifact is None:
        sample = ROOT / "samples" / "image_classifier.py"
        run(sys.executable, "-m", "edgex", "export", sample, "-t", "xnnpack", "-o", folder)
        artifact = folder / "image_classifier.xnnpack.edgex"
    run(sys.executable, "-m", "edgex", "android", artifact, "-o", folder / "app", "--application-id", APPLICATION)
    return folder / "app", artifact


def main():
    if missing := missing_packages():
        sys.exit(f"not checked: apt-get install {' '.join(missing)}")
    tools = fetch_tools(ROOT / ".android-check")
    for artifact in [Path(text) for text in sys.argv[1:]] or [None]:
        with tempfile.TemporaryDirectory(prefix="edgex-android-") as folder:
            work = Path(folder)
            check = Check(tools, work, *make_app(artifact, work))
            steps = (
                check.resources,
                check.compile,
                check.calls,
                check.tests,
                check.report,
                check.answer,
                check.dex,
                check.apk,
                check.bundle,
                check.pack,
                check.models,
                check.onnxruntime,
                check.texts,
            )
            for step in steps:
                started = time.monotonic()
                print(f"{step()}  ({time.monotonic() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
