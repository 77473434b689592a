"""Entry points: how delegates and engines, ours and other people's, are found. Nothing is imported until it is used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

from edgex.errors import TargetUnavailable


def find_plugins(group: str) -> Mapping[str, EntryPoint]:
    """The entry points of a group by name, sorted.

    Raises:
        TargetUnavailable: Two installed packages register the same name with different objects.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        other = found.setdefault(point.name, point)
        # The same distribution can be seen twice (an editable install beside its build folder): same value, no clash.
        if other.value != point.value:
            raise TargetUnavailable(
                f"two installed packages register {point.name!r} in {group}",
                why=f"{other.value} and {point.value}",
                fix="uninstall one of them",
            )
    return dict(sorted(found.items()))


def load_plugin(group: str, name: str, point: EntryPoint) -> Any:
    """Import an entry point and make its object.

    Raises:
        TargetUnavailable: The package behind it does not import.
    """
    try:
        return point.load()()
    except Exception as error:  # whatever a plug-in raises while it is imported is a broken plug-in
        raise TargetUnavailable(
            f"{name!r} ({group}) cannot be loaded",
            where=point.value,
            why=f"{type(error).__name__}: {error}",
            fix=_remedy(point),
        ) from error


def _remedy(point: EntryPoint) -> str:
    """What helps a package that cannot be imported: only what pip left out or lost, pip can bring."""
    from packaging.requirements import Requirement

    if point.dist is None:
        return f"correct {point.module}"
    package = point.dist.name
    needed = [Requirement(text) for text in point.dist.requires or ()]
    needed = [one for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
    missing = [f"'{one}'" for one in needed if installed_version(one.name) is None]
    if missing:
        return f"pip install {' '.join(missing)}"
    files = [file for file in point.dist.files or () if file.suffix in (".py", ".so")]
    if point.module.startswith("edgex.") or not all(Path(str(file.locate())).exists() for file in files):
        return f"pip install --force-reinstall {package}"
    return f"correct {point.module}, or pip uninstall {package}"


def installed_version(distribution: str) -> str | None:
    """The installed version of a distribution without importing it, or None."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
