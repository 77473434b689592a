"""What the suites share that are plans of `edgex sweep`: models by name, targets that work here, progress."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

from torch import nn

from benchmarks.coverage.suite import LIBRARIES, Entry
from edgex.export.sweep.driver import Standing

Getter = Callable[[], tuple[nn.Module, Any]]


def identify(name: str) -> str:
    """`timm/levit_128s` as the name of a function, `timm__levit_128s`."""
    return re.sub(r"\W", "_", name.replace("/", "__"))


def getters(entries: Iterable[Entry]) -> dict[str, Getter]:
    """Functions by name, as `edgex export MODULE:NAME` calls them; no library is imported before one is called."""

    def getter(entry: Entry) -> Getter:
        def get() -> tuple[nn.Module, Any]:
            if LIBRARIES.get(entry.group):
                from benchmarks.zoo import _torchvision

                # diffusers and timm import it, and transformers where it is installed.
                with contextlib.suppress(ImportError):
                    _torchvision()
            example = entry.make()
            return example.module, (tuple(example.args), dict(example.kwargs))

        return get

    return {identify(entry.name): getter(entry) for entry in entries}


def usable_targets(names: Iterable[str]) -> list[str]:
    """The targets that work here; one that does not is named on stderr."""
    from edgex.delegates.registry import get_delegate

    found = []
    for name in names:
        availability = get_delegate(name).availability()
        if availability.available:
            found.append(name)
        else:
            say(f"without {name}: {availability.reason}")
    return found


def tell_standing(standing: Standing) -> None:
    """A line for whatever ended."""
    say(f"[{standing.done}/{standing.jobs}] {standing.failed} failed  {standing.latest}")


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)
