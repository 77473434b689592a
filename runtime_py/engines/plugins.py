"""Plug-ins of engines: libraries that an engine loads before it can run some artifacts.

An artifact names them in its manifest (`requirements.plugins`), a package brings them with an entry point:

```toml
[project.entry-points."edgex.engine_plugins"]
onednn = "edgex.runtime.engines.onednn.plugin:OneDnnPlugin"
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from edgex.errors import TargetUnavailable, nearest_name
from edgex.runtime.engines.base import Availability
from edgex.runtime.support.entry_points import find_plugins, load_plugin

PLUGIN_GROUP = "edgex.engine_plugins"


class EnginePlugin(Protocol):
    """A library that adds something to an engine, for example a backend to ExecuTorch."""

    def availability(self) -> Availability:
        """Whether it can be loaded here, found out without loading it."""
        ...

    def load(self) -> None:
        """Load it into this process; again is a no-op.

        Raises:
            TargetUnavailable: Something that it needs is missing.
        """
        ...

    def use_threads(self, threads: int) -> None:
        """Threads for the runs from now on; called after `load`."""
        ...


def load_plugins(names: Sequence[str], where: str) -> list[EnginePlugin]:
    """Load the plug-ins that an artifact needs.

    Args:
        names: As in its manifest.
        where: The artifact, for messages.

    Raises:
        TargetUnavailable: One is not installed, or cannot be loaded here.
    """
    found = find_plugins(PLUGIN_GROUP) if names else {}
    plugins = []
    for name in names:
        if name not in found:
            raise TargetUnavailable(
                f"the artifact needs the plug-in {name} of its engine",
                where,
                "install the package that provides it",
                why=nearest_name(name, found),
            )
        plugin: EnginePlugin = load_plugin(PLUGIN_GROUP, name, found[name])
        plugin.load()
        plugins.append(plugin)
    return plugins
