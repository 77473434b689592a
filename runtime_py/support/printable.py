"""Text of others, shown so that a terminal obeys nothing in it."""

from __future__ import annotations

import re
from typing import Any

# Control characters, marks that turn the direction of text, separators of lines.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
CONTROL_BUT_LINES = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def escape_control(text: str) -> str:
    r"""Control characters as `\x1b`, lines and tabs as they are."""
    return CONTROL_BUT_LINES.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def escape_document(document: Any) -> Any:
    """A JSON document with all its texts and keys as `escape_control` shows them."""
    if isinstance(document, str):
        return escape_control(document)
    if isinstance(document, list):
        return [escape_document(item) for item in document]
    if isinstance(document, dict):
        return {escape_control(key): escape_document(item) for key, item in document.items()}
    return document
