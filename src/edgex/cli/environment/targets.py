"""`edgex targets`: every registered target, and whether it works here. Imports no torch and no engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgex.cli.failure import print_json
from edgex.cli.options.command import make_command
from edgex.cli.options.shared import accepted_quiet_option, json_option

if TYPE_CHECKING:
    from edgex.runtime.engines.checks import Check

# The checks by which a package is known to be broken, and a target to lack no more than its exporter.
REGISTRATION, _EXPORTER = "registration", "exporter"


@make_command("targets")
@json_option
@accepted_quiet_option
def command(as_json: bool) -> None:
    """List the targets: usable here, or which check fails and the command that helps."""
    from edgex.cli.render import print_targets
    from edgex.runtime.support.machine.host import read_host

    host = read_host()
    document = {
        "schema": "edgex.targets/2",
        "host": {"cpu": host.cpu, "machine": host.machine, "isa": None if host.isa is None else list(host.isa)},
        "targets": describe_targets(host.isa),
    }
    print_json(document) if as_json else print_targets(document)


def describe_targets(isa: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The entries `targets` of `edgex.targets/2`.

    Args:
        isa: The host's instruction sets; None where nobody knows.
    """
    from edgex.delegates.registry import delegate_names

    return [_describe(name, isa) for name in delegate_names()]


def _describe(name: str, isa: Sequence[str] | None) -> dict[str, Any]:
    from edgex.delegates.registry import get_delegate
    from edgex.errors import EdgexError
    from edgex.runtime.engines.checks import Check, check_of, first_failure
    from edgex.runtime.engines.precisions import native_precisions
    from edgex.runtime.engines.registry import ask_engine
    from edgex.runtime.support.entry_points import installed_version

    try:
        delegate = get_delegate(name)
        runs, engine_versions = ask_engine(delegate.engine)
        checks = [
            check_of(_EXPORTER, delegate.availability(), "what lowering needs is installed"),
            check_of("engine", runs, "what running needs is installed"),
        ]
        # A delegate whose artifacts need more than an engine tells what, each thing after those that it needs.
        look = getattr(delegate, "checks", None)
        if look is not None:
            untried = [Check("device", None, "not tried: a check below fails")]
            checks += look() if first_failure(checks) is None else untried
    except EdgexError as error:  # a broken plug-in must not hide the targets that work
        detail = ": ".join(part for part in (error.what, error.why) if part)
        return _document(name, [Check(REGISTRATION, False, detail, error.fix)], {}, (), None)
    versions = {package: installed_version(package) for package in delegate.packages}
    found = {**engine_versions, **{package: version for package, version in versions.items() if version}}
    return _document(name, checks, found, delegate.precisions, native_precisions(name, isa))


def _document(
    name: str,
    checks: Sequence[Check],
    versions: dict[str, str],
    precisions: Sequence[str],
    native: Sequence[str] | None,
) -> dict[str, Any]:
    from edgex.runtime.engines.checks import first_failure

    failed = first_failure(checks)
    return {
        "name": name,
        "available": failed is None,
        "runs": all(check.passed for check in checks if check.name != _EXPORTER),
        "reason": failed.detail if failed else None,
        "fix": failed.fix if failed else None,
        "checks": [check.to_json() for check in checks],
        "versions": dict(sorted(versions.items())),
        "precisions": list(precisions),
        "native_precisions": None if native is None else [p for p in native if p in precisions],
    }
