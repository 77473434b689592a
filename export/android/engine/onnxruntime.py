"""ONNX Runtime in an app: it runs `model.onnx`, on its CPU provider or on a Snapdragon's HTP (target onnx-qnn)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgex.errors import TargetUnavailable, UsageError
from edgex.export.android.edits import join_edits
from edgex.export.android.engine.app_engine import AppEngine, refuse_flavor
from edgex.export.android.engine.replacement import EXECUTORCH_SOURCE, replace_executorch
from edgex.export.android.engine.versions import ONNXRUNTIME_AAR
from edgex.export.android.options import AppOptions
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.support.versions import is_older

_SUFFIX = ".onnx"
_DATA = ".onnx.data"
_PINNED = "The newest without telemetry: builds from 1.29 on report to their makers."
_LICENCES = "ONNX Runtime: MIT, Microsoft and others\\nKotlin: Apache 2.0, JetBrains"
_CPU_EDITS = replace_executorch("ONNX Runtime", _SUFFIX, pinned=_PINNED, licences=_LICENCES)

# The HTP is reached from 64-bit Arm alone. It reads its libraries as files, and one of them is the device's own.
_QNN_EDITS = join_edits(
    replace_executorch(
        "ONNX Runtime",
        _SUFFIX,
        pinned=_PINNED,
        licences=_LICENCES.replace("\\nKotlin", "\\nQNN: Qualcomm\\'s own licence\\nKotlin"),
    ),
    {
        "app/build.gradle.kts": (
            (
                "            // 64-bit, as the model was proved; the engine's library holds these processors.\n"
                '            abiFilters += listOf("arm64-v8a", "x86_64")\n',
                "            // The HTP is a Snapdragon's: there is none for x86.\n"
                '            abiFilters += "arm64-v8a"\n',
            ),
            (
                "    androidResources {\n",
                "    packaging {\n"
                "        // The HTP reads its libraries as files, so they are unpacked when the app is installed.\n"
                "        jniLibs { useLegacyPackaging = true }\n"
                "    }\n\n"
                "    androidResources {\n",
            ),
        ),
        "app/src/main/AndroidManifest.xml": (
            (
                "        <!-- Lets release builds",
                "        <!-- The device's own way to its HTP. -->\n"
                "        <uses-native-library\n"
                '            android:name="libcdsprpc.so"\n'
                '            android:required="false"\n'
                '            tools:targetApi="31" />\n\n'
                "        <!-- Lets release builds",
            ),
        ),
        "README.md": (
            ("./gradlew :model:atdDebugAndroidTest   # the golden data, on an emulator that Gradle brings\n", ""),
        ),
    },
)


def find_onnxruntime(artifact: Artifact, options: AppOptions) -> AppEngine:
    """ONNX Runtime's library for an artifact of onnx-cpu or onnx-qnn; it reads models of other versions too.

    Raises:
        UsageError: The artifact is for another provider, its weights in a second file are not pushed, or a flavor is
            asked for, which are ExecuTorch's.
        TargetUnavailable: It needs a newer ONNX Runtime.
    """
    manifest = artifact.manifest
    where = f"{artifact.path.name} is not for the Android app"
    if manifest.target not in ("onnx-cpu", "onnx-qnn"):
        raise UsageError(
            f"{where}: it is for {manifest.target}",
            why="ONNX Runtime for Android has its CPU provider, and QNN in a build of its own",
            fix="edgex export MODEL -t onnx-cpu",
        )
    refuse_flavor(artifact, options, "ONNX Runtime")
    beside = next((file.path for file in manifest.native_files if file.path.endswith(_DATA)), None)
    if beside is not None and options.model_source != "push":
        raise UsageError(
            f"{where}: its weights lie in {beside} beside the model",
            why="an app and Google Play's packs end before ONNX files do, at 2 GB",
            fix="--model-source push, or export it with --quantize int8",
        )
    needed = manifest.requirements.minimum_version
    if needed is not None and is_older(ONNXRUNTIME_AAR, needed):
        raise TargetUnavailable(
            f"{where}: it needs ONNX Runtime {needed}, and the app brings {ONNXRUNTIME_AAR}",
            fix="edgex export MODEL -t xnnpack",
            why="later libraries for Android report to their makers",
        )
    is_qnn = manifest.target == "onnx-qnn"
    return AppEngine(
        name="onnxruntime",
        label="ONNX Runtime",
        group="com.microsoft.onnxruntime",
        library="onnxruntime-android-qnn" if is_qnn else "onnxruntime-android",
        version=ONNXRUNTIME_AAR,
        exporter=manifest.producer.get("onnxruntime", "unknown"),
        flavor="qnn" if is_qnn else "cpu",
        suffix=_SUFFIX,
        backends=("QNNExecutionProvider",) if is_qnn else ("CPUExecutionProvider",),
        variants=("onnxruntime", "onnxruntime-qnn" if is_qnn else "onnxruntime-cpu"),
        left_out=(EXECUTORCH_SOURCE,),
        edits=_QNN_EDITS if is_qnn else _CPU_EDITS,
        weights=beside,
        provider=_read_provider(manifest.options) if is_qnn else None,
        abis=("arm64-v8a",) if is_qnn else ("arm64-v8a", "x86_64"),
        notices=(_QNN_NOTICE,) if is_qnn else (),
    )


_QNN_NOTICE = (
    "the app brings Qualcomm's QNN libraries (com.qualcomm.qti:qnn-runtime, their own licence); it runs on Snapdragons "
    "with an HTP alone; the context binary of an artifact is not taken along, the phone compiles the model itself"
)


def _read_provider(options: Mapping[str, Any]) -> dict[str, str]:
    """The options that the model was proved with, but for the chip: the phone's own is found when it is loaded."""
    given = dict(options.get("provider_options", {}))
    for chip in ("soc_model", "htp_arch", "backend_path"):
        given.pop(chip, None)
    return {name: str(int(value) if isinstance(value, bool) else value) for name, value in sorted(given.items())}
