"""Where artifacts go: a folder, or what fsspec reaches, `s3://…` for example; and how they are fetched from there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgex.errors import ArtifactError, RunError, TargetUnavailable, UsageError
from edgex.export.sweep.exporting import TargetResult
from edgex.runtime.artifact.manifest import MANIFEST_FILE
from edgex.runtime.measure.results.row import Failure
from edgex.runtime.support.disk.scratch import scratch_folder
from edgex.runtime.support.publish import disk_errors

NOWHERE = "none"

# Written and removed, to see whether that can be done.
_PROBE = ".edgex-sweep-begins"


def is_url(place: str) -> bool:
    """Whether fsspec has to reach it."""
    return "://" in place


def check_place(place: str) -> None:
    """Write a file there and remove it again, so that nothing is exported for a place that cannot be written.

    Raises:
        UsageError: No package knows such URLs, or what is there is seen by one process alone.
        TargetUnavailable: fsspec, or the package for such URLs, is not installed.
        RunError: It cannot be written.
    """
    if not is_url(place):
        with disk_errors(RunError, f"--artifacts {place} cannot be written", fix="--artifacts FOLDER|URL"):
            Path(place).mkdir(parents=True, exist_ok=True)
            (Path(place) / _PROBE).write_bytes(b"")
            (Path(place) / _PROBE).unlink()
        return
    scheme = place.partition("://")[0]
    try:
        import fsspec

        fsspec.get_filesystem_class(scheme)
    except ValueError as error:
        raise UsageError(f"--artifacts {place}: no such kind of URL", why=str(error)) from error
    except ImportError as error:
        fix = "pip install 'edgex-toolchain[sweep]', and the package that the URL needs: s3fs, gcsfs, adlfs, …"
        raise TargetUnavailable(f"--artifacts {place} cannot be reached", why=str(error), fix=fix) from error
    if scheme == "memory":
        raise UsageError(
            f"--artifacts {place} is the memory of one process",
            why="exports and measurements are processes of their own",
            fix="--artifacts none keeps no artifacts; they are measured all the same",
        )
    try:
        system, root = _open(f"{place.rstrip('/')}/{_PROBE}")
        system.makedirs(root.rpartition("/")[0], exist_ok=True)
        system.pipe_file(root, b"")
        system.rm_file(root)
    except Exception as error:  # every file system has errors of its own
        why = str(error) or type(error).__name__
        raise RunError(f"--artifacts {place} cannot be written", why=why, fix="--artifacts FOLDER|URL") from error


def is_there(place: str) -> bool:
    """Whether an artifact is there, whole: its manifest is written last."""
    if not is_url(place):
        return Path(place).is_dir()
    try:
        system, root = _open(place)
        return bool(system.exists(f"{root}/{MANIFEST_FILE}"))
    except Exception:  # then it is made again, and whatever is wrong is said where it is written
        return False


def place_artifacts(results: Mapping[str, TargetResult], output: str | None) -> dict[str, TargetResult]:
    """Send artifacts where they belong, and note where that is.

    Args:
        results: By target; their artifacts are in a local folder.
        output: The folder in which they are already, a URL, or None to keep none.
    """
    return {target: _place(result, output) for target, result in results.items()}


def _place(result: TargetResult, output: str | None) -> TargetResult:
    if result.made is None or result.made.artifact is None:
        return result
    if output is None:
        return replace(result, made=replace(result.made, artifact=None))
    if not is_url(output):
        return result
    local = Path(result.made.artifact)
    url = f"{output.rstrip('/')}/{local.name}"
    try:
        _upload(local, url)
    except Exception as error:  # every file system has errors of its own
        failure = Failure("place", ArtifactError.exit_code, f"the artifact cannot be written to {url}", why=str(error))
        return replace(result, status="failed", made=None, failure=failure)
    return replace(result, made=replace(result.made, artifact=url))


def _upload(folder: Path, url: str) -> None:
    """The manifest last: a folder without one is no artifact."""
    system, root = _open(url)
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    for name in sorted(names, key=lambda name: name == MANIFEST_FILE):
        target = f"{root}/{name}"
        system.makedirs(target.rpartition("/")[0], exist_ok=True)
        system.put_file(str(folder / name), target)


@contextmanager
def fetched(place: str) -> Iterator[Path]:
    """An artifact as a local folder: itself, or a copy that is gone after the block.

    Raises:
        ArtifactError: It cannot be fetched.
    """
    if not is_url(place):
        yield Path(place)
        return
    with scratch_folder("fetched") as folder:
        local = folder / place.rpartition("/")[2]
        try:
            system, root = _open(place)
            _download(system, root, local)
        except Exception as error:  # every file system has errors of its own
            raise ArtifactError(f"{place} cannot be fetched", why=str(error)) from error
        yield local


def _download(system: Any, root: str, local: Path) -> None:
    found: list[str] = system.find(root)
    if f"{root}/{MANIFEST_FILE}" not in found:
        raise FileNotFoundError(f"there is no {MANIFEST_FILE}")
    for name in found:
        target = local / name[len(root) :].lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        system.get_file(name, str(target))


def _open(url: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    system, root = url_to_fs(url)
    return system, str(root).rstrip("/")
