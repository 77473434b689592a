"""What mentions ExecuTorch in the sample, for projects with another engine: texts beside the files of variants."""

from __future__ import annotations

from edgex.export.android.edits import Edits

EXECUTORCH_SOURCE = "model/src/main/kotlin/dev/edgex/model/engine/ExecuTorchEngine.kt"


def replace_executorch(
    label: str, suffix: str, *, pinned: str, licences: str, noncompressed: str | None = None
) -> Edits:
    """The edits.

    Args:
        label: The engine for people.
        suffix: Of the model's file, with the dot.
        pinned: Why the library has the version that it has, as a comment.
        licences: What the Details screen says, in the resource's own form.
        noncompressed: A suffix that the app stores uncompressed beside those that it does anyway.
    """
    build = "app/build.gradle.kts"
    stored = () if noncompressed is None else (('listOf("pte", "onnx", "bin")', f'listOf("{noncompressed}", "bin")'),)
    return {
        "README.md": (
            ("plugin and ExecuTorch's library from", f"plugin and {label}'s library from"),
            ("adb push model.pte /sdcard", f"adb push model{suffix} /sdcard"),
            ("SHA256.pte\n", f"SHA256{suffix}\n"),
        ),
        "model/build.gradle.kts": (
            (
                "    // The version that exported the model: an older one cannot be relied on to read it.\n",
                f"    // {pinned}\n",
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
        build: (
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
            *stored,
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
                "\n    <!-- ExecuTorch's AAR declares the instrumentation of its own tests; an app must not carry it. "
                "-->\n"
                "    <instrumentation\n"
                '        android:name="androidx.test.runner.AndroidJUnitRunner"\n'
                '        tools:node="remove" />\n',
                "",
            ),
        ),
        "app/src/main/res/values/strings.xml": (
            (
                "ExecuTorch: BSD 3-Clause, Meta Platforms and others\\nfbjni, nativeloader: Apache 2.0, Meta "
                "Platforms\\nKotlin, AndroidX: Apache 2.0, JetBrains and the Android Open Source Project",
                licences,
            ),
        ),
    }
