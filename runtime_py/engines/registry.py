"""Engines by name."""

from __future__ import annotations

import traceback
from collections.abc import Mapping

from edgex.errors import EdgexError, TargetUnavailable, nearest_name
from edgex.runtime.engines.base import ENGINE_GROUP, Availability, Engine
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


def ask_engine(name: str) -> tuple[Availability, Mapping[str, str]]:
    """Whether an engine can run here, and the versions of its packages.

    Raises:
        TargetUnavailable: No installed package registers it, or the package is broken: what another package's engine
            raises unexpectedly names the package and the line.
    """
    engine = get_engine(name)
    point = find_plugins(ENGINE_GROUP)[name]
    try:
        return engine.availability(), engine.versions()
    except EdgexError:
        raise
    except Exception as error:  # whatever else it is, it is the plug-in's
        if point.module.split(".")[0] == "edgex":
            raise
        package = point.dist.name if point.dist else point.module
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise TargetUnavailable(
            f"engine {name!r}: the plug-in {package} failed in availability or versions",
            f"{frame.filename}:{frame.lineno}",
            f"tell the authors of {package}, or pip uninstall {package}",
            why="".join(traceback.format_exception_only(error)).strip(),
        ) from error
