"""ONNX Runtime in an app: it runs `model.onnx` of the target onnx-cpu, on its CPU provider."""

from __future__ import annotations

from edgex.errors import TargetUnavailable, UsageError
from edgex.export.android.edits import Edits
from edgex.export.android.engine.app_engine import AppEngine
from edgex.export.android.engine.versions import ONNXRUNTIME_AAR
from edgex.export.android.options import AppOptions
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.support.versions import is_older

_PROVIDER = "CPUExecutionProvider"
_SUFFIX = ".onnx"

# What mentions ExecuTorch in the sample, beside the files of `variants/onnxruntime`.
_EDITS: Edits = {
    "README.md": (
        ("plugin and ExecuTorch's library from", "plugin and ONNX Runtime's library from"),
        ("adb push model.pte /sdcard", "adb push model.onnx /sdcard"),
        ("SHA256.pte\n", "SHA256.onnx\n"),
    ),
    "model/build.gradle.kts": (
        (
            "    // The version that exported the model: an older one cannot be relied on to read it.\n",
            "    // The newest without telemetry: builds from 1.29 on report to their makers.\n",
        ),
        (
            "    // A library takes no AAR along: the app brings -PedgexExecutorchAar.\n"
            '    val localAar = providers.gradleProperty("edgexExecutorchAar").orNull\n'
            "    if (localAar == null) implementation(engine) else compileOnly(files(localAar))\n",
            "    implementation(engine)\n",
        ),
        (
            '        testInstrumentationRunner = "androidx.test.runner.AndroidJUnitRunner"\n',
            '        testInstrumentationRunner = "androidx.test.runner.AndroidJUnitRunner"\n'
            '        consumerProguardFiles("consumer-rules.pro")\n',
        ),
    ),
    "app/build.gradle.kts": (
        (
            "    // -PedgexExecutorchAar=path takes an AAR of your own, for example one built for profiling; "
            "the library compiles against it.\n"
            '    providers.gradleProperty("edgexExecutorchAar").orNull?.let { localAar ->\n'
            "        implementation(files(localAar))\n"
            "        implementation(libs.fbjni)\n"
            "        implementation(libs.nativeloader)\n"
            "    }\n",
            "",
        ),
    ),
    "gradle/libs.versions.toml": (
        (
            "# Only where -PedgexExecutorchAar names a local file: it brings no dependencies along.\n"
            'fbjni = "0.7.0"\nnativeloader = "0.10.5"\n',
            "",
        ),
        (
            'fbjni = { module = "com.facebook.fbjni:fbjni", version.ref = "fbjni" }\n'
            'nativeloader = { module = "com.facebook.soloader:nativeloader", version.ref = "nativeloader" }\n',
            "",
        ),
    ),
    "app/src/main/AndroidManifest.xml": (
        (
            "\n    <!-- ExecuTorch's AAR declares the instrumentation of its own tests; an app must not carry it. -->\n"
            "    <instrumentation\n"
            '        android:name="androidx.test.runner.AndroidJUnitRunner"\n'
            '        tools:node="remove" />\n',
            "",
        ),
    ),
    "app/src/main/res/values/strings.xml": (
        (
            "ExecuTorch: BSD 3-Clause, Meta Platforms and others\\nfbjni, nativeloader: Apache 2.0, Meta Platforms\\n"
            "Kotlin, AndroidX: Apache 2.0, JetBrains and the Android Open Source Project",
            "ONNX Runtime: MIT, Microsoft and others\\nKotlin: Apache 2.0, JetBrains",
        ),
    ),
}


def find_onnxruntime(artifact: Artifact, options: AppOptions) -> AppEngine:
    """ONNX Runtime's library for an artifact of onnx-cpu; it reads models of other versions too.

    Raises:
        UsageError: The artifact is for another provider, has state or weights in a second file, or a flavor is asked
            for, which are ExecuTorch's.
        TargetUnavailable: It needs a newer ONNX Runtime.
    """
    manifest = artifact.manifest
    where = f"{artifact.path.name} is not for the Android app"
    if manifest.target != "onnx-cpu":
        raise UsageError(
            f"{where}: it is for {manifest.target}",
            why="the app runs ONNX models on ONNX Runtime's CPU provider alone",
            fix="edgex export MODEL -t onnx-cpu",
        )
    if options.flavor != "xnnpack":
        raise UsageError(
            f"--flavor {options.flavor} is one of ExecuTorch's libraries, and ONNX Runtime runs {artifact.path.name}",
            fix="leave --flavor out, or: edgex export MODEL -t xnnpack",
        )
    if carried := [spec.name for spec in manifest.method.state if spec.input is not None]:
        raise UsageError(
            f"{where}: it has state, {', '.join(carried)}",
            why="with ONNX Runtime the app would have to hand it back at each run, which it does not",
            fix="edgex export MODEL -t xnnpack, where state lives in the program",
        )
    if beside := [file.path for file in manifest.native_files if file.path.endswith(".onnx.data")]:
        raise UsageError(
            f"{where}: its weights lie in {beside[0]} beside the model",
            why="the app holds the model as one file, and ONNX files end at 2 GB",
            fix="edgex export MODEL -t onnx-cpu --quantize int8, or -t xnnpack",
        )
    needed = manifest.requirements.minimum_version
    if needed is not None and is_older(ONNXRUNTIME_AAR, needed):
        raise TargetUnavailable(
            f"{where}: it needs ONNX Runtime {needed}, and the app brings {ONNXRUNTIME_AAR}",
            fix="edgex export MODEL -t xnnpack",
            why="later libraries for Android report to their makers",
        )
    return AppEngine(
        name="onnxruntime",
        label="ONNX Runtime",
        group="com.microsoft.onnxruntime",
        library="onnxruntime-android",
        version=ONNXRUNTIME_AAR,
        exporter=manifest.producer.get("onnxruntime", "unknown"),
        flavor="cpu",
        suffix=_SUFFIX,
        backends=(_PROVIDER,),
        variant="onnxruntime",
        left_out=("model/src/main/kotlin/dev/edgex/model/engine/ExecuTorchEngine.kt",),
        edits=_EDITS,
    )
