"""The checks that every provider ends with: its library loads, and a tiny model runs on it; each in its own process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edgex.errors import EdgexError
from edgex.runtime.engines.checks import Check
from edgex.runtime.engines.onnxruntime.provider.known import Provider
from edgex.runtime.support.machine.c_library import find_newer, suggest_fix

Ask = Callable[[Mapping[str, Any]], Mapping[str, Any]]

NOT_TRIED = Check("session", None, "not tried: a check below does not hold")


def ask_in_a_process(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask `edgex.runtime.engines.onnxruntime.provider.probe` in a process of its own."""
    # Imports ONNX Runtime's parts, which the checks before need not.
    from edgex.runtime.engines.onnxruntime.provider.probe import ask_probe

    return ask_probe(request)


def check_library(library: Path, ask: Ask = ask_in_a_process, install_command: str | None = None) -> Check:
    """Load it in a process of its own: a library of another version may end the process that loads it.

    Args:
        library: It.
        ask: Asks the process.
        install_command: What installs it, for a machine whose system is too old for it.
    """
    try:
        ask({"do": "load", "library": str(library)})
    except EdgexError as error:
        said = _last_line(error)
        fix = f"ldd {library}"
        if install_command is not None and find_newer(said):
            fix = suggest_fix(said, install_command)
        return Check("library", False, f"{library.name} does not load: {said}", fix)
    return Check("library", True, f"{library.name} loads")


def check_session(
    provider: Provider, library: Path | None, ask: Ask = ask_in_a_process, options: Mapping[str, Any] | None = None
) -> Check:
    """Run a tiny model on the provider."""
    request = {
        "do": "run",
        "provider": provider.name,
        "library": None if library is None else str(library),
        "options": dict(options or {}),
    }
    try:
        ran_on = ask(request)["provider"]
    except EdgexError as error:
        text = f"a tiny model does not run: {_last_line(error)}"
        return Check("session", False, text, "edgex explain - < its output")
    return Check("session", True, f"a tiny model ran on {ran_on}")


def _last_line(error: EdgexError) -> str:
    return (f"{error.what}: {error.why}" if error.why else error.what).strip().splitlines()[-1]
