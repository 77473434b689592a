"""The suite's models as `benchmarks.coverage.by_name:NAME`, as `edgex export` and `edgex sweep` take them."""

from __future__ import annotations

from benchmarks.coverage.suite import all_entries
from benchmarks.plans import getters, identify


def spec_of(name: str) -> str:
    """How a model of the suite is given to edgex: `timm/levit_128s` is `timm__levit_128s`."""
    return f"{__name__}:{identify(name)}"


globals().update(getters(all_entries()))
