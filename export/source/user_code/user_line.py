"""The user's own line in a failure: the frame that matters, as `net.py:12` with the text of that line."""

from __future__ import annotations

import functools
import linecache
import re
import sysconfig
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import edgex.errors
from edgex.delegates.graph.provenance import shorten_path

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


@dataclass(frozen=True)
class UserLine:
    """One line of Python.

    Attributes:
        place: `net.py:12`, relative to the user's folder or to the installed packages.
        text: The line, stripped; empty when the file cannot be read.
        installed: Whether it is in Python or an installed package, where the user cannot change it.
    """

    place: str
    text: str
    installed: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.text else self.place


def line_at(file: str, line: int, source_root: Path) -> UserLine:
    """The line of a file."""
    path = Path(file)
    return UserLine(f"{_shorten(path, source_root)}:{line}", linecache.getline(file, line).strip(), is_installed(path))


def line_of_error(error: BaseException, source_root: Path) -> UserLine | None:
    """The innermost frame in the user's folder, else the innermost outside torch and edgex, else None.

    Strict capture interprets the user's code, so that its frames are in the message and not in the traceback.
    """
    frames = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    quoted = [(match["file"], int(match["line"])) for match in _FRAME.finditer(str(error))]
    for candidates in (quoted, frames):
        found = _innermost(candidates, source_root)
        if found is not None and (candidates is frames or _is_users(found[0], source_root)):
            return line_at(*found, source_root)
    found = _innermost(quoted, source_root)
    return None if found is None else line_at(*found, source_root)


def library_line_of_error(error: BaseException, source_root: Path) -> UserLine | None:
    """The innermost frame outside torch and edgex where it is not in the user's folder: a library that they call."""
    frames = [(frame.filename, frame.lineno or 0) for frame in traceback.extract_tb(error.__traceback__)]
    outside = [frame for frame in frames if not is_machinery(frame[0])]
    return None if not outside or _is_users(outside[-1][0], source_root) else line_at(*outside[-1], source_root)


def line_of_trace(trace: str, source_root: Path) -> UserLine | None:
    """The innermost frame of a formatted stack trace that is the user's, else outside torch, else None."""
    found = _innermost([(match["file"], int(match["line"])) for match in _FRAME.finditer(trace)], source_root)
    return None if found is None else line_at(*found, source_root)


def line_of_frames(frames: Iterable[tuple[str, int]], source_root: Path) -> UserLine | None:
    """The innermost frame of the user's own files, of (file, line) from the outermost in; None without one."""
    users = [frame for frame in frames if _is_users(frame[0], source_root) and not is_machinery(frame[0])]
    return line_at(*users[-1], source_root) if users else None


def innermost_line(frames: Iterable[tuple[str, int]], source_root: Path) -> UserLine | None:
    """As `line_of_frames`; where none is the user's, the innermost outside torch and edgex."""
    found = _innermost(list(frames), source_root)
    return None if found is None else line_at(*found, source_root)


def _innermost(frames: Iterable[tuple[str, int]], source_root: Path) -> tuple[str, int] | None:
    outside = [frame for frame in frames if not is_machinery(frame[0])]
    users = [frame for frame in outside if _is_users(frame[0], source_root)]
    found = users or outside
    return found[-1] if found else None


def _is_users(file: str, source_root: Path) -> bool:
    path = Path(file)
    return path.is_relative_to(source_root) and not is_installed(path)


@functools.cache
def is_installed(path: Path) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    folders = (sysconfig.get_path(key) for key in ("purelib", "platlib", "stdlib"))
    return any(path.is_relative_to(folder) for folder in folders)


@functools.cache
def is_machinery(file: str) -> bool:
    """Files that are never what the user should look at."""
    if file.startswith("<"):
        return True
    parts = Path(file).parts
    if "torch" in parts or "importlib" in parts or "contextlib.py" in parts:
        return True
    return is_own(file)


@functools.cache
def is_own(file: str) -> bool:
    """Whether a file is edgex's own code."""
    return any(Path(file).resolve().is_relative_to(folder) for folder in _own_folders())


@functools.cache
def _own_folders() -> tuple[Path, ...]:
    """Edgex's own code. What is behind edgex.export may be a link; edgex.samples is as the user's own."""
    package = Path(edgex.errors.__file__).parent
    return tuple((package / name).resolve() for name in ("export", "delegates", "runtime", "cli"))


def _shorten(path: Path, source_root: Path) -> str:
    # A virtual environment often lies inside the user's folder: what is installed there is not the user's.
    return shorten_path(path, Path(sysconfig.get_path("purelib")) if is_installed(path) else source_root)
