"""Write an artifact so that it either appears whole or not at all.

Everything is written into a hidden sibling of the final folder and renamed at the end; whatever goes wrong
before, an interrupt included, removes it again, with the folders that were made for it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgex.errors import ArtifactError, UsageError
from edgex.runtime.artifact.artifact import SUFFIX, hash_file
from edgex.runtime.artifact.manifest import MANIFEST_FILE, FileEntry, Manifest
from edgex.runtime.artifact.names import check_name
from edgex.runtime.support.publish import disk_errors, publish_folder, staged_folder, try_folder

# What a file system says when it will not take a file; any other OSError is a defect and keeps its traceback.
_REFUSALS = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.ENAMETOOLONG,
)

_ANOTHER = "give a folder that you may write to with -o"


@dataclass(frozen=True)
class Destination:
    """Where an artifact is to go.

    Attributes:
        path: Its final folder.
        force: Whether something that is already there is replaced.
    """

    path: Path
    force: bool = False


def resolve_destination(output: Path | None, name: str, target: str, *, force: bool, single: bool) -> Destination:
    """The artifact's final path, checked before any slow step.

    Args:
        output: `-o`: a folder that receives `NAME.TARGET.edgex`, or a path that ends in `.edgex`; None is here.
        name: The model's name.
        target: The target's name.
        force: Whether an existing artifact may be replaced.
        single: Whether there is only one target; several cannot share one `.edgex` path.

    Raises:
        UsageError: Something is in the way.
    """
    reason = check_name(name)
    if reason is not None:
        raise UsageError(f"{name!r} cannot name an artifact", why=reason, fix="rename the file, or give file.py:NAME")
    output = output or Path()
    if output.suffix == SUFFIX:
        if not single:
            raise UsageError(
                f"-o {output} names one artifact, but several targets are given",
                fix="give a folder: each artifact is named NAME.TARGET.edgex inside it",
            )
        path = output
    else:
        path = output / f"{name}.{target}{SUFFIX}"
    for parent in path.parents:
        if _exists(parent):
            if not parent.is_dir():
                raise UsageError(f"{parent} is a file, so nothing can be written below it", fix="give another -o")
            if not os.access(parent, os.W_OK | os.X_OK):
                raise ArtifactError(f"{parent} is not writable", fix=_ANOTHER)
            with disk_errors(ArtifactError, f"no folder can be made in {parent}", fix=_ANOTHER):
                try_folder(parent, path.name)
            break
    if _exists(path) or path.is_symlink():
        if not force:
            raise UsageError(f"{path} exists", fix="--force replaces it, -o chooses another place")
        if path.is_symlink() or not path.is_dir() or not (path / MANIFEST_FILE).is_file():
            raise UsageError(f"{path} exists and is not an artifact, so --force does not replace it")
    return Destination(path, force)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError as error:
        raise ArtifactError(f"{path.parent} is not accessible", why=error.strerror, fix=_ANOTHER) from error


@contextmanager
def staged(destination: Destination) -> Iterator[Path]:
    """A temporary folder beside the destination; gone after the block unless `publish` renamed it.

    Raises:
        ArtifactError: The file system refuses (full, read-only).
    """
    try:
        with staged_folder(destination.path, kin=SUFFIX) as folder:
            yield folder
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        raise ArtifactError(
            f"cannot write {destination.path}",
            why=error.strerror or str(error),
            fix="free some space or give another folder with -o",
        ) from error


@contextmanager
def trial_folder(destination: Destination) -> Iterator[Path]:
    """A path near the destination for artifacts that are only measured; what was made there is gone afterwards."""
    with staged_folder(destination.path, kin=SUFFIX, purpose="-trial") as folder:
        yield folder / destination.path.name


def publish(folder: Path, destination: Destination) -> None:
    """Rename the finished folder to its final name, replacing an older artifact if `--force` allows it.

    Raises:
        UsageError: Another export has written it meanwhile.
    """
    try:
        publish_folder(folder, destination.path, replace=destination.force)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT) or not folder.is_dir():
            raise
        raise UsageError(
            f"{destination.path} was written by another export meanwhile",
            why="two exports had the same output; the first to finish is kept",
            fix="give each its own -o; --force replaces what is there",
        ) from error


@contextmanager
def hashing(folder: Path, names: Iterable[str]) -> Iterator[Callable[[], Mapping[str, str]]]:
    """Hash finished files in a thread while the block runs: the proof waits for another process, and a core is free.

    Args:
        folder: The artifact.
        names: Files below it that the block leaves alone.

    Yields:
        A function that waits for the hashes and gives them by name.
    """
    pool = ThreadPoolExecutor(1, "edgex-hash")
    try:
        waiting = {name: pool.submit(hash_file, folder / name) for name in names}
        yield lambda: {name: future.result() for name, future in waiting.items()}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def list_files(folder: Path, hashes: Mapping[str, str] | None = None, *, hashed: bool = True) -> tuple[FileEntry, ...]:
    """Every file below the folder except the manifest, sorted by path.

    Args:
        folder: The artifact.
        hashes: SHA-256 of files that need no hashing any more, by name.
        hashed: With SHA-256; without, while the artifact is not finished, the hashes are empty.
    """
    known = hashes or {}
    entries = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if name != MANIFEST_FILE:
            entries.append(FileEntry(name, path.stat().st_size, (known.get(name) or hash_file(path)) if hashed else ""))
    return tuple(entries)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write `manifest.json`."""
    (folder / MANIFEST_FILE).write_text(manifest.dumps(), encoding="utf-8")
