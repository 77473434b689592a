"""JSON that someone else wrote, read strictly: what an artifact, a saved report or a device says.

`json.loads` takes more than JSON (NaN, Infinity, lone surrogates), keeps the last of two equal keys and goes as deep
as the interpreter's stack. Whoever works with such a document meets the fault far from where it came in; so it is
refused here.
"""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path
from typing import Any, NoReturn

MAX_DEPTH = 64
MAX_BYTES = 64 << 20


def read_json(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> Any:
    """Read and parse a file.

    Args:
        path: A regular file, or a link to one.
        max_bytes: What is larger is refused before it is read.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no regular file, too large, or not strict JSON.
    """
    return parse_json(read_regular(path, max_bytes))


def read_regular(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    """The content of a regular file: never of a pipe, which would wait, or a device, which would not end.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no regular file, or larger than `max_bytes`.
    """
    # O_NONBLOCK: opening a pipe that nobody writes to would wait before its kind can be asked.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{Path(path).name} is not a regular file")
        if status.st_size > max_bytes:
            raise ValueError(f"{Path(path).name} has {status.st_size:,} bytes; at most {max_bytes:,} are read")
        content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ValueError(f"{Path(path).name} has more than {max_bytes:,} bytes")
    return content


def parse_json(content: bytes | str, max_depth: int = MAX_DEPTH) -> Any:
    """Parse one document.

    Raises:
        ValueError: It is not UTF-8, not JSON, has an equal key twice, a number that is not finite, NUL or a lone
            surrogate in a string, or goes deeper than `max_depth`.
    """
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        document = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_not_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check_values(document, max_depth)
    return document


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} is there twice")
    return found


def _not_finite(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _check_values(document: Any, max_depth: int) -> None:
    level = [document]
    for _ in range(max_depth):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += value
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, str):
                _check_text(value)
            elif isinstance(value, float) and not math.isfinite(value):
                raise ValueError("a number is too large")
        if not below:
            return
        level = below
    raise ValueError(f"it is nested deeper than {max_depth} levels")


def _check_text(text: str) -> None:
    if "\0" in text:
        raise ValueError("a string holds NUL")
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ValueError("a string holds half of a surrogate pair")
