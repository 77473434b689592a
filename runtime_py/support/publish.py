"""Files and folders that appear whole or not at all: written beside their place under a hidden name, then renamed.

```python
with replacing(path) as temporary:      # a file; a folder likewise, with `staged_folder` and `publish_folder`
    temporary.write_text(text)
```

The hidden name is `.NAME.tmp-PROCESS`: what a killed process left can be told by it, and is removed with
`remove_leftovers`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from edgex.errors import EdgexError


def temporary_sibling(path: Path) -> Path:
    """The hidden name beside `path` under which this process writes it."""
    return path.with_name(f".{path.name}.tmp-{os.getpid()}")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a file under a hidden name; renamed to `path` when the block ends well, removed when it does not.

    Raises:
        OSError: The file system refuses.
    """
    temporary = temporary_sibling(path)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file, whole or not at all; its folder exists.

    Raises:
        OSError: The file system refuses.
    """
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def staged_folder(path: Path) -> Iterator[Path]:
    """A hidden folder beside `path`; gone after the block, with the parents made for it, unless it was published.

    Raises:
        OSError: The file system refuses.
    """
    missing = [parent for parent in path.parents if not parent.exists()]
    folder = temporary_sibling(path)
    try:
        folder.mkdir(parents=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        remove_empty(missing)


def publish_folder(folder: Path, path: Path, *, replace: bool = False) -> None:
    """Rename a finished folder to its name.

    Args:
        folder: From `staged_folder`.
        path: Its name.
        replace: An older folder of this name gives way; it stays if the renaming fails.

    Raises:
        OSError: The file system refuses, or there is a folder that must not be replaced.
    """
    if not (replace and path.exists()):
        folder.rename(path)
        return
    retired = folder.with_name(folder.name + "-old")
    path.rename(retired)
    try:
        folder.rename(path)
    except OSError:
        retired.rename(path)
        raise
    shutil.rmtree(retired, ignore_errors=True)


def remove_leftovers(parent: Path, suffix: str, process: int) -> None:
    """Remove the hidden folders of a process that was killed before it could do so itself.

    Args:
        parent: Where they are.
        suffix: How the names end under which they would have been published.
        process: The process that was killed.
    """
    for folder in parent.glob(f".*{suffix}.tmp-{process}*"):
        shutil.rmtree(folder, ignore_errors=True)


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove folders that were made for something, innermost first, as far as they are empty."""
    for folder in folders:
        try:
            folder.rmdir()
        except FileNotFoundError:  # never made
            continue
        except OSError:  # not empty: someone else's too
            return


@contextmanager
def disk_errors(kind: type[EdgexError], what: str, where: str | None = None, fix: str | None = None) -> Iterator[None]:
    """What the file system refuses within the block becomes an error for the user.

    Args:
        kind: Of the error.
        what: What could not be done.
        where: Where.
        fix: What to do about it.
    """
    try:
        yield
    except OSError as error:
        raise kind(what, where, fix, why=error.strerror or str(error)) from error
