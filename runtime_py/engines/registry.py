"""Engines by name."""

from __future__ import annotations

from edgex.errors import TargetUnavailable, nearest_name
from edgex.runtime.engines.base import ENGINE_GROUP, Engine
from edgex.runtime.support.entry_points import find_plugins, load_plugin


def get_engine(name: str) -> Engine:
    """The engine of that name.

    Raises:
        TargetUnavailable: No installed package registers it, or the package is broken.
    """
    found = find_plugins(ENGINE_GROUP)
    if name not in found:
        raise TargetUnavailable(
            f"no engine named {name!r} is installed",
            why=nearest_name(name, found),
            fix="install the package that provides it",
        )
    engine: Engine = load_plugin(ENGINE_GROUP, name, found[name])
    return engine
