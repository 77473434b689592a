"""The survey's models as `benchmarks.speed.by_name:NAME`, as `edgex export` and `edgex sweep` take them."""

from __future__ import annotations

from benchmarks.plans import getters, identify
from benchmarks.speed.models import entries


def spec_of(name: str) -> str:
    """How a model of the survey is given to edgex: `timm/levit_128s` is `timm__levit_128s`."""
    return f"{__name__}:{identify(name)}"


globals().update(getters(entries()))
