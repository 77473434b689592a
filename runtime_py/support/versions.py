"""Versions of packages, compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.version import Version


def read_release(text: str) -> Version | None:
    """The release that a version belongs to: `1.5.1+cpu` and `1.5.1.dev3` are of 1.5.1; None for what is no version."""
    # Takes a few milliseconds, which only some artifacts need.
    from packaging.version import InvalidVersion, Version

    try:
        return Version(Version(text).base_version)
    except InvalidVersion:
        return None


def is_older(installed: str, needed: str) -> bool:
    """Whether a version is of an older release than the one that is needed; one that cannot be read counts as older.

    Raises:
        ValueError: `needed` is no version.
    """
    least = read_release(needed)
    if least is None:
        raise ValueError(f"{needed!r} is no version")
    release = read_release(installed)
    return release is None or release < least


def is_other_series(installed: str, wanted: str) -> bool:
    """Whether two versions differ in their first two numbers; one that cannot be read does."""
    found, expected = read_release(installed), read_release(wanted)
    return found is None or expected is None or (found.major, found.minor) != (expected.major, expected.minor)
