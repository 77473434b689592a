"""Open an artifact in its engine: `edgex.load`."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

from edgex.errors import ArtifactError
from edgex.runtime.artifact.artifact import Artifact, CheckLevel, open_artifact
from edgex.runtime.engines.base import Engine, list_settings
from edgex.runtime.engines.registry import get_engine
from edgex.runtime.session.runner import EngineSettings
from edgex.runtime.session.session import Session
from edgex.runtime.support.arguments import check_mapping, check_threads
from edgex.runtime.support.tuning import Tuning, read_tuning


def load(
    path: str | os.PathLike[str] | Artifact,
    *,
    threads: int | None = None,
    options: Mapping[str, Any] | None = None,
    check: CheckLevel = "hash",
    tuned: bool = True,
    isolate: bool = False,
    method: str | None = None,
    allow_non_finite: bool = False,
) -> Session:
    """Open an artifact and load it into its engine.

    Args:
        path: The artifact's folder, or an opened artifact such as `edgex.export_model` returns.
        threads: Threads for one run; None takes what `edgex pick` or `edgex profile --sweep threads` found quickest
            for this artifact on this machine, else the engine's default.
        options: Engine settings by name. Those that a pick found quickest with these threads are added, where the
            same name is not given.
        check: `hash` checks SHA-256 of every file first, `size` only their sizes.
        tuned: False does not look for what a pick or a sweep found.
        isolate: For artifacts of strangers: load and run it once in another process first, so that a file that crashes
            the engine ends in an error instead of this process; see `edgex.runtime.engines.trial`.
        method: Which of the artifact's methods the Session runs; None is the first. `Session.method` gives the others,
            on the same loaded program.
        allow_non_finite: Run inputs with NaN or infinity also where the artifact is not proved to treat them as eager
            PyTorch does; see `edgex.runtime.session.non_finite`.

    Raises:
        UsageError: An argument is of another type, or there is no such `check`.
        ArtifactError: The artifact is damaged.
        TargetUnavailable: Its engine is not installed.
        RunError: It has no such method; the engine refused it; or, isolated, crashed.
    """
    check_threads(threads)
    check_mapping("options", options)
    artifact = open_artifact(path.path if isinstance(path, Artifact) else path, check).select(method)
    if isolate:
        versions = get_engine(artifact.manifest.engine).versions()
        from edgex.runtime.engines.trial import require_trial

        require_trial(artifact, EngineSettings(threads, dict(options or {})), versions, hashed=check == "hash")
    return open_session(artifact, threads, options or {}, tuned=tuned, allow_non_finite=allow_non_finite)


def open_session(
    artifact: Artifact,
    threads: int | None,
    options: Mapping[str, Any],
    *,
    tuned: bool,
    allow_non_finite: bool = True,
) -> Session:
    """Load an artifact that is open into its engine; see `load`. Proofs and measurements run any inputs.

    Raises:
        UsageError: `threads` is no whole number.
        TargetUnavailable: Its engine is not installed.
        RunError: The engine refused it, or nothing can have so many threads.
    """
    check_threads(threads)
    engine = get_engine(artifact.manifest.engine)
    kept = read_tuning(artifact.digest) if tuned else None
    preferred = kept.threads if kept is not None and threads is None else None
    added = {} if kept is None else _choose_tuned(engine, kept, threads, options)
    settings = EngineSettings(threads, {**options, **added}, preferred, tuple(added))
    session = engine.open(artifact, settings)
    session.settings = settings
    method = artifact.manifest.selected
    session.reopen = functools.partial(
        _reopen, str(artifact.path.resolve()), threads, dict(options), tuned, allow_non_finite, method
    )
    if not allow_non_finite:
        session.refuse_non_finite()
    return session


def _choose_tuned(engine: Engine, kept: Tuning, threads: int | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The kept settings that are used: found with these threads, not given otherwise, and offered by this engine."""
    if not kept.options or threads not in (None, kept.threads):
        return {}
    offered = list_settings(engine, kept.threads)
    return {name: value for name, value in kept.options.items() if name not in options and (name, value) in offered}


def _reopen(
    path: str,
    threads: int | None,
    options: Mapping[str, Any],
    tuned: bool,
    allow_non_finite: bool,
    method: str | None,
    digest: str,
) -> Session:
    """What a pickled session becomes in the process that unpickles it.

    Raises:
        ArtifactError: The artifact is another one by now.
    """
    artifact = open_artifact(path).select(method)
    if artifact.digest != digest:
        raise ArtifactError("the artifact was replaced after the Session was pickled", path, "load it anew: edgex.load")
    return open_session(artifact, threads, options, tuned=tuned, allow_non_finite=allow_non_finite)
