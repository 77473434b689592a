"""Where artifacts go: a folder, or what fsspec reaches, `s3://…` for example; and how they are fetched from there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.errors import ArtifactError, TargetUnavailable, UsageError
from edgex.export.sweep.exporting import TargetResult
from edgex.runtime.artifact.manifest import MANIFEST_FILE
from edgex.runtime.measure.results.row import Failure
from edgex.runtime.support.disk.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

NOWHERE = "none"


def is_url(place: str) -> bool:
    """Whether fsspec has to reach it."""
    return "://" in place


def check_place(place: str) -> None:
    """Refuse a place that cannot be reached for want of a package.

    Raises:
        UsageError: No package knows such URLs.
        TargetUnavailable: fsspec, or the package for such URLs, is not installed.
    """
    if not is_url(place):
        return
    try:
        import fsspec

        fsspec.get_filesystem_class(place.partition("://")[0])
    except ValueError as error:
        raise UsageError(f"--artifacts {place}: no such kind of URL", why=str(error)) from error
    except ImportError as error:
        fix = "pip install 'edgex-toolchain[sweep]', and the package that the URL needs: s3fs, gcsfs, adlfs, …"
        raise TargetUnavailable(f"--artifacts {place} cannot be reached", why=str(error), fix=fix) from error


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
    found: Iterable[str] = system.find(root)
    for name in found:
        target = local / name[len(root) :].lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        system.get_file(name, str(target))


def _open(url: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    system, root = url_to_fs(url)
    return system, str(root).rstrip("/")
