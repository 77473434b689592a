"""`edgex targets`: every registered target, and whether it works here. Imports no torch and no engine."""

from __future__ import annotations

from typing import Any

import click

from edgex.cli.failure import print_json


@click.command("targets")
@click.option("--json", "as_json", is_flag=True, help="One document on stdout.")
def command(as_json: bool) -> None:
    """List the targets: usable here, or what is missing and the command that installs it."""
    from edgex.cli.render import print_targets
    from edgex.delegates.registry import delegate_names

    document = {"schema": "edgex.targets/1", "targets": [_describe(name) for name in delegate_names()]}
    print_json(document) if as_json else print_targets(document)


def _describe(name: str) -> dict[str, Any]:
    from edgex.delegates.registry import get_delegate
    from edgex.errors import EdgexError
    from edgex.runtime.engines.registry import get_engine
    from edgex.runtime.plugins import installed_version

    try:
        delegate = get_delegate(name)
        engine = get_engine(delegate.engine)
    except EdgexError as error:  # a broken plug-in must not hide the targets that work
        reason = f"{error.what}: {error.why}"
        return {"name": name, "available": False, "reason": reason, "fix": error.fix, "versions": {}, "precisions": []}
    checks = (delegate.availability(), engine.availability())
    missing = next((check for check in checks if not check.available), None)
    versions = {package: installed_version(package) for package in delegate.packages}
    return {
        "name": name,
        "available": missing is None,
        "reason": missing.reason if missing else None,
        "fix": missing.fix if missing else None,
        "versions": dict(sorted({**engine.versions(), **{k: v for k, v in versions.items() if v}}.items())),
        "precisions": list(delegate.precisions),
    }
