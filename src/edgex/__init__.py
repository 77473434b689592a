"""edgex: export PyTorch models to on-device artifacts that have proved themselves, run them, profile them.

```python
import edgex

artifact = edgex.export_model(model, (x,), target="xnnpack")
with edgex.load(artifact.path) as session:
    (logits,) = session(x)
```

The functions are imported when first used: `import edgex` costs nothing, and `edgex.load` never
imports the exporter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgex._version import __version__

if TYPE_CHECKING:
    from edgex.export.api import export_model
    from edgex.export.pick.api import pick
    from edgex.export.why.api import why
    from edgex.runtime.engines.loading import load
    from edgex.runtime.execute.here.proof import verify
    from edgex.runtime.measure.compare.collect import compare
    from edgex.runtime.measure.profile.collect import profile

__all__ = ["__version__", "compare", "export_model", "load", "pick", "profile", "verify", "why"]

_HOMES = {
    "export_model": "edgex.export.api",
    "pick": "edgex.export.pick.api",
    "load": "edgex.runtime.engines.loading",
    "verify": "edgex.runtime.execute.here.proof",
    "why": "edgex.export.why.api",
    # packages of these names exist, too; the functions live in their modules `collect`
    "compare": "edgex.runtime.measure.compare.collect",
    "profile": "edgex.runtime.measure.profile.collect",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'edgex' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
