"""Whether the QNN provider can be used here, check by check."""

from __future__ import annotations

from pathlib import Path

from edgex.runtime.engines.checks import Check, first_failure
from edgex.runtime.engines.onnxruntime.provider.detection import NOT_TRIED, check_library, check_session
from edgex.runtime.engines.qnn.provider import (
    DISTRIBUTION,
    INSTALL_COMMAND,
    LICENCE,
    OLDEST,
    QNN,
    find_htp,
    find_provider,
    simulates,
)
from edgex.runtime.support.entry_points import installed_version
from edgex.runtime.support.versions import is_older


def detect(library: Path | None = None, *, run_session: bool = True) -> list[Check]:
    """Look at every check; those that start a process only where `run_session` is set.

    Args:
        library: The provider's library; None is that of the installed package.
        run_session: Whether to load the library, and to run a tiny model, each in a process of its own.
    """
    checks = [check_package()] if library is None else []
    chosen = library or find_provider()
    if chosen is not None and not chosen.is_file():
        fix = f"pip install --force-reinstall --no-deps {DISTRIBUTION}"
        checks.append(Check("library", False, f"{chosen.name} does not exist", fix))
    if not run_session or first_failure(checks) is not None or chosen is None:
        return [*checks, NOT_TRIED]
    checks.append(check_library(chosen, install_command=INSTALL_COMMAND))
    if first_failure(checks) is not None:
        return [*checks, NOT_TRIED]
    htp = find_htp()
    options = {} if htp is None else {"backend_path": str(htp)}
    session = check_session(QNN, chosen, options=options)
    if session.passed and simulates():
        session = Check(session.name, True, f"{session.detail}, in its simulator: there is no Snapdragon here")
    return [*checks, session]


def check_package() -> Check:
    """Whether the provider's package is installed, and new enough to be a plug-in."""
    version = installed_version(DISTRIBUTION)
    if version is None or find_provider() is None:
        return Check("package", False, f"{DISTRIBUTION} is not installed; {LICENCE}", INSTALL_COMMAND)
    if is_older(version, OLDEST):
        return Check(
            "package", False, f"{DISTRIBUTION} {version} is too old", f"pip install '{DISTRIBUTION}>={OLDEST}'"
        )
    return Check("package", True, f"{DISTRIBUTION} {version}; {LICENCE}")
