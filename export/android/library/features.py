"""What some projects need beside the sample's build files: coroutines for a flow of tokens, the microphone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgex.export.android.edits import Edits, join_edits

# On Maven Central; for the Flow that the classes of language models give.
COROUTINES = "org.jetbrains.kotlinx:kotlinx-coroutines-core:1.10.2"

_FLOW: Edits = {
    "model/build.gradle.kts": (
        (
            '    testImplementation("junit',
            "    // For the flow of tokens, which callers see.\n"
            f'    api("{COROUTINES}")\n    testImplementation("junit',
        ),
    ),
}
_MICROPHONE: Edits = {
    "app/src/main/AndroidManifest.xml": (
        (
            "<!-- No permission is asked for: the model runs on the device, and nothing leaves it. -->\n",
            "<!-- The microphone is asked for when Record is pressed; the model runs here, and nothing leaves the "
            "device. -->\n",
        ),
        (
            "    <application\n",
            '    <uses-permission android:name="android.permission.RECORD_AUDIO" />\n\n'
            '    <uses-feature\n        android:name="android.hardware.microphone"\n'
            '        android:required="false" />\n\n'
            "    <application\n",
        ),
    ),
    "README.md": (
        (
            "It asks for no permission and uses no network.",
            "It asks for the microphone when Record is pressed, for no\nother permission, and uses no network.",
        ),
    ),
}


def feature_edits(document: Mapping[str, Any]) -> Edits:
    """The edits for what the app's manifest says of its model."""
    wanted = [_FLOW] if document["generation"] is not None else []
    wanted += [_MICROPHONE] if document["microphone"] is not None else []
    return join_edits(*wanted)
