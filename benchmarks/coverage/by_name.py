"""The suite's models as `benchmarks.coverage.by_name:NAME`, as `edgex export` and `edgex sweep` take them.

`timm/levit_128s` is `timm__levit_128s`. No library is imported before a model is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from torch import nn

from benchmarks.coverage.suite import Entry, all_entries


def spec_of(name: str) -> str:
    """How a model of the suite is given to edgex."""
    return f"{__name__}:{_identifier(name)}"


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name.replace("/", "__"))


def _getter(entry: Entry) -> Callable[[], tuple[nn.Module, Any]]:
    def get() -> tuple[nn.Module, Any]:
        example = entry.make()
        return example.module, (tuple(example.args), dict(example.kwargs))

    return get


globals().update({_identifier(entry.name): _getter(entry) for entry in all_entries()})
