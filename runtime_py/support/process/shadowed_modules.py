"""Files of the user's that hide a module of Python's own, such as `tokenize.py` in a folder of PYTHONPATH."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

_IMPORT_TROUBLE = re.compile(
    r"^(?:ImportError|ModuleNotFoundError|AttributeError|NameError|SyntaxError)\b", re.MULTILINE
)


def find_shadows(search_path: str) -> list[Path]:
    """Files that hide modules of the standard library.

    Args:
        search_path: As in PYTHONPATH: what comes before the standard library.
    """
    found: list[Path] = []
    for folder in filter(None, search_path.split(os.pathsep)):
        files = sorted(Path(folder).glob("*.py"))
        packages = [path.parent for path in sorted(Path(folder).glob("*/__init__.py"))]
        found += [path for path in (*files, *packages) if path.stem in sys.stdlib_module_names]
    return found


def explain_shadow(log: str, search_path: str) -> str | None:
    """What to do where a process ended because a file hides one of Python's modules; None where none is at fault.

    Args:
        log: What the process wrote to stderr.
        search_path: Its PYTHONPATH.
    """
    if _IMPORT_TROUBLE.search(log) is None:
        return None
    guilty = [path for path in find_shadows(search_path) if re.search(rf"\b{re.escape(path.stem)}\b", log)]
    if not guilty:
        return None
    return f"{guilty[0]} hides Python's own module {guilty[0].stem!r}: rename it, or take its folder off PYTHONPATH"
