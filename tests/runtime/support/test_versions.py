"""Versions of packages, and the user's cache."""

import pytest

from edgex.runtime.support.cache import user_cache
from edgex.runtime.support.versions import is_older, is_other_series


@pytest.mark.parametrize(
    ("installed", "needed", "older"),
    [
        ("1.9", "1.10", True),
        ("1.10", "1.9", False),
        ("1.20", "1.20.0", False),
        ("1.20.0", "1.20", False),
        ("1.5.1+cpu", "1.5.1", False),
        ("1.31.0.dev20260101", "1.31", False),
        ("1.31rc1", "1.31", False),
        ("1.30.2rc1", "1.31", True),
        ("unknown", "1.0", True),
    ],
)
def test_older(installed, needed, older):
    assert is_older(installed, needed) is older


def test_what_is_needed_must_be_a_version():
    with pytest.raises(ValueError, match="newest"):
        is_older("1.0", "newest")


@pytest.mark.parametrize(
    ("installed", "wanted", "other"),
    [("1.5.1", "1.5.0", False), ("1.5", "1.5.0+cpu", False), ("1.6.0", "1.5.9", True), ("2.5", "1.5", True)],
)
def test_series(installed, wanted, other):
    assert is_other_series(installed, wanted) is other


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache("device", "hashes") == tmp_path / "edgex" / "device" / "hashes"
