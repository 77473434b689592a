"""What may be chosen for an app: identity, labels, how pictures become the input, flavor, where the model is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgex.errors import UsageError
from edgex.export.android.delivery import Delivery
from edgex.runtime.artifact.card import ImageInput
from edgex.runtime.artifact.card_microphone import MicrophoneCard

Flavor = Literal["xnnpack", "vulkan"]
ModelSource = Literal["asset", "push"]

_JAVA_KEYWORDS = frozenset(
    (
        *("abstract", "assert", "boolean", "break", "byte", "case", "catch", "char", "class", "const"),
        *("continue", "default", "do", "double", "else", "enum", "extends", "false", "final", "finally"),
        *("float", "for", "goto", "if", "implements", "import", "instanceof", "int", "interface", "long"),
        *("native", "new", "null", "package", "private", "protected", "public", "return", "short", "static"),
        *("strictfp", "super", "switch", "synchronized", "this", "throw", "throws", "transient", "true", "try"),
        *("void", "volatile", "while"),
    )
)


@dataclass(frozen=True)
class AppOptions:
    """What was chosen; None takes what the artifact says, or a default made from its name.

    Attributes:
        application_id: The app's identity on a device, for example `com.example.digits`.
        name: What the launcher shows.
        labels: Names of the classes.
        image: How a picture becomes the input.
        microphone: The input that the app may record.
        flavor: Which of ExecuTorch's Android libraries the app is built with.
        model_source: `asset` carries the model within the app, `push` leaves it to `adb push`.
        delivery: When Google Play brings the model, in a pack of its own; None where it is within the app.
        library_only: Write the library module alone, for an existing app.
    """

    application_id: str | None = None
    name: str | None = None
    labels: tuple[str, ...] | None = None
    image: ImageInput | None = None
    microphone: MicrophoneCard | None = None
    flavor: Flavor = "xnnpack"
    model_source: ModelSource = "asset"
    delivery: Delivery | None = None
    library_only: bool = False


def check_application_id(text: str) -> str:
    """The text, if Android, Java and the Play store all take it as an application id.

    Raises:
        UsageError: They do not.
    """
    parts = text.split(".")
    why = None
    if len(parts) < 2:
        why = "it needs two parts or more, with dots between them"
    elif not all(re.fullmatch(r"[a-z][a-z0-9_]*", part) for part in parts):
        why = "each part is a lower-case letter followed by lower-case letters, digits and _"
    elif reserved := [part for part in parts if part in _JAVA_KEYWORDS]:
        why = f"{reserved[0]!r} is a word of Java"
    if why is not None:
        fix = "--application-id com.yourcompany.yourapp"
        raise UsageError(f"--application-id {text}: not an application id", why=why, fix=fix)
    return text


def default_application_id(name: str) -> str:
    """`dev.edgex.app.<name>`, from an artifact's name."""
    slug = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "model"
    return f"dev.edgex.app.{slug if slug[0].isalpha() and slug not in _JAVA_KEYWORDS else 'm_' + slug}"


def check_app_name(text: str) -> str:
    """The text, if it can be the app's name: printable, and short enough for a launcher.

    Raises:
        UsageError: It cannot.
    """
    if not text.strip() or len(text) > 50 or not text.isprintable():
        raise UsageError(f"--name {text!r}: a name is 1 to 50 printable characters")
    return text.strip()


def read_labels(path: Path) -> tuple[str, ...]:
    """Class names from a text file, one a line.

    Raises:
        UsageError: The file cannot be read, or a line is empty.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"--labels {path}: the file cannot be read", why=error.strerror) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--labels {path}: the file cannot be read", why="it is no UTF-8") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise UsageError(
                f"--labels {path}: line {number} is empty", fix="one class name a line, in the model's order"
            )
    if not lines:
        raise UsageError(f"--labels {path}: the file is empty", fix="one class name a line, in the model's order")
    return tuple(line.strip() for line in lines)
