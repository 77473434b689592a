"""A trial in another process: an artifact of a stranger is loaded and run there once before it is loaded here.

Native loaders read files without expecting malice: bytes that were changed with care end some of them in a segmentation
fault, and the process with them. In a trial it is the child's process, and an error here. It shows that loading and
running the example do not crash; code that takes over a process without crashing it, it does not show, nor what other
inputs would do. An artifact that passed is remembered by its digest in the user's cache, and tried once.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping

from edgex.errors import EdgexError, RunError
from edgex.runtime.artifact.artifact import Artifact
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.support.cache import user_cache
from edgex.runtime.support.process.child import Child, ChildEnded

_TASK = "edgex.runtime.engines.trial_child:try_loading"
TIMEOUT_SECONDS = 600.0


def require_trial(artifact: Artifact, settings: EngineSettings, versions: Mapping[str, str], *, hashed: bool) -> None:
    """Load and run an artifact in a child, unless that was done before with these versions of the engine.

    Args:
        artifact: An opened artifact.
        settings: Threads and options of the session to come.
        versions: Of the engine's packages.
        hashed: Its hashes were checked. Without, its digest is a claim, and no trial is remembered.

    Raises:
        RunError: The child crashed or did not end.
    """
    passed = user_cache("trials", f"{artifact.digest}-{'-'.join(f'{k}-{v}' for k, v in sorted(versions.items()))}")
    if hashed and passed.exists():
        return
    request = {"path": str(artifact.path.resolve()), "threads": settings.threads, "options": dict(settings.options)}
    try:
        json.dumps(request)
    except TypeError as error:
        raise RunError("isolate=True takes options that JSON can hold", why=str(error)) from error
    try:
        with Child(_TASK, f"the trial of {artifact.path.name}") as child:
            child.ask(request, timeout_seconds=TIMEOUT_SECONDS)
    except ChildEnded as error:
        raise RunError(
            f"{artifact.path.name} crashes the engine: {error.what}",
            artifact.path.name,
            "do not use this artifact; export the model again where you trust the machine",
            why=error.why,
        ) from error
    except EdgexError:
        # A refusal is no crash: loading here says the same, in this process's words.
        return
    if not hashed:
        return
    with contextlib.suppress(OSError):  # a cache that cannot be written costs a trial the next time
        passed.parent.mkdir(parents=True, exist_ok=True)
        passed.touch()
