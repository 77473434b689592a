"""Files and folders that appear whole or not at all: written beside their place under a hidden name, then renamed.

```python
with replacing(path) as temporary:      # a file; a folder likewise, with `staged_folder` and `publish_folder`
    temporary.write_text(text)
```

The hidden name is `.NAME.tmp-PROCESS`, a folder, for files too. What a killed process left is removed by the next one
that writes the same: see `edgex.runtime.support.disk.leftovers`.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from edgex.errors import EdgexError
from edgex.runtime.support.disk.exchange import swap
from edgex.runtime.support.disk.leftovers import RETIRED, held, remove_abandoned


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a file under a hidden name; renamed to `path` when the block ends well, removed when it does not.

    Raises:
        OSError: The file system refuses.
    """
    with _temporary_sibling(path, re.escape(f".{path.name}")) as folder:
        yield folder / path.name
        (folder / path.name).replace(path)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file, whole or not at all; its folder exists.

    Raises:
        OSError: The file system refuses.
    """
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def staged_folder(path: Path, *, kin: str = "", purpose: str = "") -> Iterator[Path]:
    """A hidden folder beside `path`; gone after the block, with the parents made for it, unless it was published.

    Args:
        path: The name that it is to get.
        kin: The ending of names that are edgex's alone: what killed processes left of any of them goes too.
        purpose: Tells it from another one for the same `path`.

    Raises:
        OSError: The file system refuses.
    """
    missing = [parent for parent in path.parents if not parent.exists()]
    owner = re.escape(f".{path.name}") + (rf"|\..+{re.escape(kin)}" if kin else "")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _temporary_sibling(path, owner, purpose) as folder:
            yield folder
    finally:
        remove_empty(missing)


@contextmanager
def _temporary_sibling(path: Path, owner: str, purpose: str = "") -> Iterator[Path]:
    """The hidden folder beside `path`, in a folder that exists; `owner` as in `remove_abandoned`."""
    remove_abandoned(path.parent, owner)
    folder = path.with_name(f".{path.name}.tmp-{os.getpid()}{purpose}")
    folder.mkdir()
    try:
        with held(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def try_folder(parent: Path, name: str) -> None:
    """Make a hidden folder and remove it, before slow work: /proc, for one, grants rights that it does not keep to.

    Args:
        parent: A folder that exists.
        name: What is to be made in it later.

    Raises:
        OSError: The file system refuses.
    """
    folder = parent / f".{name}.tmp-{os.getpid()}-{threading.get_native_id()}"
    folder.mkdir(exist_ok=True)
    with suppress(FileNotFoundError):  # another process took it for one that was left behind
        folder.rmdir()


def publish_folder(folder: Path, path: Path, *, replace: bool = False) -> None:
    """Rename a finished folder to its name.

    An older folder gives way in one step. Where the file system has no such step, it is renamed before: a process that
    is killed at that moment leaves it under a hidden name, and the next one that writes the same puts it back.

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
    if swap(folder, path):
        _discard(folder)
        return
    retired = folder.with_name(folder.name + RETIRED)
    with held(path):
        path.rename(retired)
        try:
            folder.rename(path)
        except OSError:
            retired.rename(path)
            raise
        _discard(retired)


def _discard(path: Path) -> None:
    """Remove what was published before: a folder, or a link to one that stays."""
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


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
