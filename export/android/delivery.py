"""The model in an AI pack of Google Play's, `--delivery`: a module of its own beside library and app.

`install-time` packs are installed with the app, and their assets are the app's; `fast-follow` and `on-demand` packs are
files that Play brings later, for which the library needs Play's `ai-delivery`.

Limits of sizes, by compressed download, as Google's pages had them in 2025: 200 MB for the base module, 1.5 GB for
a pack, 4 GB for all packs (support.google.com/googleplay/android-developer/answer/9859372,
developer.android.com/google/play/on-device-ai). Newer copies of the former say 500 MB for the base module; the lower
figure is what notices go by.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from edgex.errors import UsageError
from edgex.export.android.edits import Edits, edit_text
from edgex.runtime.artifact.artifact import Artifact

Delivery = Literal["install-time", "fast-follow", "on-demand"]
DELIVERIES: tuple[Delivery, ...] = ("install-time", "fast-follow", "on-demand")

# The module; also the pack's name for Play, which must be its folder's.
MODULE = "modelpack"
BASE_BYTES = 200_000_000
PACK_BYTES = 1_500_000_000
# Play's library for packs that come after the installation, on Google's Maven.
LIBRARY = "com.google.android.play:ai-delivery:0.1.1-alpha01"

_EDITS: Edits = {
    "settings.gradle.kts": (('include(":model", ":app")', f'include(":model", ":app", ":{MODULE}")'),),
    "build.gradle.kts": (
        (
            "    alias(libs.plugins.android.library) apply false\n",
            "    alias(libs.plugins.android.library) apply false\n"
            "    alias(libs.plugins.android.ai.pack) apply false\n",
        ),
    ),
    "gradle/libs.versions.toml": (
        (
            'android-library = { id = "com.android.library", version.ref = "agp" }\n',
            'android-library = { id = "com.android.library", version.ref = "agp" }\n'
            'android-ai-pack = { id = "com.android.ai-pack", version.ref = "agp" }\n',
        ),
    ),
    "app/build.gradle.kts": (
        (
            "    androidResources {\n",
            f"    // What Google Play brings beside the app; `installDebug` brings no packs, see README.md.\n"
            f'    assetPacks += listOf(":{MODULE}")\n\n    androidResources {{\n',
        ),
    ),
}
_LATER_EDITS: Edits = {
    "model/build.gradle.kts": (
        (
            '    testImplementation("junit',
            f"    // Finds the model in the pack that Google Play brings after the installation.\n"
            f'    implementation("{LIBRARY}")\n    testImplementation("junit',
        ),
    ),
}


def model_source_of(delivery: Delivery | None, source: str) -> str:
    """Where the app looks for its model: packs that are installed with it are its assets."""
    return source if delivery in (None, "install-time") else "pack"


def check_size(artifact: Artifact, suffix: str, delivery: Delivery) -> None:
    """The pack must not be larger than Play takes.

    Raises:
        UsageError: It is. The limit is of the compressed file; weights hardly compress.
    """
    size = artifact.manifest.file(suffix).bytes
    if size > PACK_BYTES:
        raise UsageError(
            f"--delivery {delivery}: the model has {size / 1e9:.1f} GB, and Google Play takes packs of up to 1.5 GB",
            artifact.path.name,
            "export it quantized, or in two models",
        )


def add_pack(project: Path, variants: Path, delivery: Delivery) -> Path:
    """Put the pack's module into a project, and name it where it must be named.

    Args:
        project: The written project.
        variants: The sample's folder of what only some projects have.
        delivery: When Play brings the pack.

    Returns:
        The folder for the pack's assets.

    Raises:
        ValueError: The sample's files have no such lines any more.
    """
    build = (variants / "modelpack" / "build.gradle.kts").read_text(encoding="utf-8")
    module = project / MODULE
    module.mkdir()
    build = edit_text("modelpack", build, [('"install-time"', f'"{delivery}"')])
    (module / "build.gradle.kts").write_text(build, encoding="utf-8")
    edits = dict(_EDITS)
    if delivery != "install-time":
        edits |= _LATER_EDITS
        found = (variants / "play" / "PackDelivery.kt").read_bytes()
        (project / "model/src/main/kotlin/dev/edgex/model/PackDelivery.kt").write_bytes(found)
    for name, pairs in edits.items():
        path = project / name
        path.write_text(edit_text(name, path.read_text(encoding="utf-8"), pairs), encoding="utf-8")
    return module / "src" / "main" / "assets" / "edgex"
