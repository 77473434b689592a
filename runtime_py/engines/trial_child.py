"""The child's side of `edgex.runtime.engines.trial`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgex.runtime.artifact.golden import read_example
from edgex.runtime.engines.loading import load
from edgex.runtime.support.process.serving import Tell


def try_loading(request: Mapping[str, Any], _tell: Tell) -> dict[str, Any]:
    """Load an artifact and run its example.

    Args:
        request: `path`, `threads` and `options`, as `edgex.load` takes them.

    Raises:
        EdgexError: What loading or running refuses.
    """
    threads, options = request["threads"], request["options"]
    with load(request["path"], threads=threads, options=options, check="size", tuned=False) as session:
        session.run(**read_example(session.artifact))
    return {}
