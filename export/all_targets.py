"""`all` as a target: every one that works here and takes what is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from edgex.delegates.registry import delegate_names, get_delegate
from edgex.errors import EdgexError, UsageError
from edgex.export.settings import ExportSettings, check_delegate

ALL = "all"


def expand_all(settings: ExportSettings, lacking: Mapping[str, str | None]) -> tuple[ExportSettings, tuple[str, ...]]:
    """Replace `all` by the targets that it stands for; those that are named beside it are kept.

    Args:
        settings: What the user asked for.
        lacking: Why a target's artifacts cannot run here, by target; None where they can.

    Returns:
        The settings, and a sentence on the targets that were left out; without `all` the settings as they are.

    Raises:
        UsageError: No target works here and takes what is asked.
    """
    if ALL not in settings.targets:
        return settings, ()
    named = [name for name in settings.targets if name != ALL]
    taken: list[str] = []
    left: dict[str, str | None] = {}
    for name in delegate_names():
        if name in named:
            continue
        if lacking.get(name) is not None:
            left[name] = lacking[name]
            continue
        try:
            check_delegate(get_delegate(name), settings)
        except UsageError:
            raise
        except EdgexError as error:
            left[name] = error.what
        else:
            taken.append(name)
    said = "; ".join(f"{name}: {reason}" for name, reason in left.items())
    if not named and not taken:
        raise UsageError("no target works here and takes what is asked", why=said, fix="edgex targets lists them")
    notices = (f"-t all leaves out {said}",) if left else ()
    return replace(settings, targets=(*named, *taken), optional=tuple(taken)), notices
