"""Errors in the terms of Python code: its keyword arguments in place of the command line's flags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from edgex.errors import EdgexError

# What the arguments of `edgex.export_model` are called on the command line. Flags without an argument stay as they are.
_WORDS = (
    (r"--no-memory-check", "memory_check=False"),
    (r"--force", "force=True"),
    (r"--no-bisect", "bisect=False"),
    (r"--(target|precision|quantize|observer) ([\w-]+)", r"\1='\2'"),
    (r"--(calibration|max-drop|group-size) ([\w.:]+)", r"\1=\2"),
    (r"--option ([\w.]+)=([\w.]+)", r"options={'\1': '\2'}"),
    (r"--(calibration|observer|precision|quantize)\b", r"\1="),
    (r"--verify-data\b", "verify_data="),
    (r"--(context|chunk) (\d+)", r"\1=\2"),
    (r"--(context|chunk)\b", r"\1="),
    (r"(?<![\w-])-o (?=\S*\.edgex)", "output="),
    (r"(?<![\w-])-o\b", "output="),
    (r"max-drop=", "max_drop="),
    (r"group-size=", "group_size="),
)


@contextmanager
def in_python_words() -> Iterator[None]:
    """Whatever error leaves the block tells what to do in the terms of Python."""
    try:
        yield
    except EdgexError as error:
        for one in (error, *error.others):
            one.fix = translate(one.fix)
        raise


def translate(text: str | None) -> str | None:
    """`--force replaces it, -o chooses …` as `force=True replaces it, output= chooses …`."""
    if text is None:
        return None
    for pattern, words in _WORDS:
        text = re.sub(pattern, words, text)
    return text
