"""The files of the project that differ from app to app: one line of each, or two.

`samples/android` holds a project that builds as it stands, with values of its own in those lines. Each is replaced by a
pattern that must match exactly once, so a changed sample cannot silently keep its own values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape

from edgex.runtime.support.printable import CONTROL, escape_control


@dataclass(frozen=True)
class Identity:
    """What an app is called and built with.

    Attributes:
        application_id: Its identity on a device.
        name: What the launcher shows.
        project: Gradle's name of the project.
        version_name: What the system's settings show.
        engine: The engine's library, as Gradle writes it: `org.pytorch:executorch-android:1.5.1`.
    """

    application_id: str
    name: str
    project: str
    version_name: str
    engine: str


def kotlin_text(text: str) -> str:
    """A string literal of Kotlin."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def resource_text(text: str) -> str:
    """A text of an Android string resource: XML, and Android's own escapes on top.

    Raises:
        ValueError: It holds control characters, which XML cannot.
    """
    if CONTROL.search(text):
        raise ValueError(f"{text!r} cannot stand in XML")
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"')
    if escaped[:1] in ("@", "?"):
        escaped = "\\" + escaped
    return escape(escaped)


# File -> (pattern whose second group is what is replaced, the text in its place).
_LINES: Mapping[str, tuple[tuple[str, Callable[[Identity], str]], ...]] = {
    "README.md": (
        (r"^(# )(The edgex sample app)()$", lambda i: escape_control(i.name)),
        (r"^(adb push model\.\w+ /sdcard/Android/data/)(APPLICATION_ID)(/.*)$", lambda i: i.application_id),
    ),
    "settings.gradle.kts": ((r'^(rootProject\.name = )(".*")()$', lambda i: kotlin_text(i.project)),),
    "model/build.gradle.kts": ((r'^( *val engine = )(".*")()$', lambda i: kotlin_text(i.engine)),),
    "app/build.gradle.kts": (
        (r'^( *applicationId = )(".*")()$', lambda i: kotlin_text(i.application_id)),
        (r'^( *versionName = )(".*")()$', lambda i: kotlin_text(i.version_name)),
    ),
    "app/src/main/res/values/app_name.xml": (
        (r'^( *<string name="app_name"[^>]*>)(.*)(</string>)$', lambda i: resource_text(i.name)),
    ),
}

TEMPLATES = tuple(_LINES)


def fill_template(path: str, text: str, identity: Identity) -> str:
    """One of `TEMPLATES` with an app's values in place of the sample's.

    Raises:
        ValueError: The sample's file has no such line any more, or several.
    """
    for pattern, value in _LINES[path]:
        found = list(re.finditer(pattern, text, flags=re.M))
        if len(found) != 1:
            raise ValueError(f"{path}: {pattern} matches {len(found)} times, not once")
        text = text[: found[0].start(2)] + value(identity) + text[found[0].end(2) :]
    return text
