"""`edgex doctor`: this environment against the known-good matrix, with a fix for whatever is wrong."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from edgex.cli.failure import print_json
from edgex.cli.layout import echo_labelled
from edgex.cli.options.command import make_command
from edgex.cli.options.shared import accepted_quiet_option, json_option

if TYPE_CHECKING:
    from edgex.doctor.checks import Finding

BROKEN_EXIT_CODE = 7


@make_command("doctor")
@json_option
@accepted_quiet_option
def command(as_json: bool) -> None:
    """Check Python, package versions, clashing builds, compiler and OpenMP. Exit code 7 if something is broken."""
    document = _examine()
    print_json(document) if as_json else _print(document)
    sys.exit(0 if document["healthy"] else BROKEN_EXIT_CODE)


def _examine() -> dict[str, Any]:
    from edgex._version import __version__
    from edgex.doctor.checks import examine
    from edgex.doctor.environment import read_environment
    from edgex.runtime.engines.rocm.detection import detect
    from edgex.runtime.support.machine.host import read_host

    environment = read_environment()
    findings = [*examine(environment), *_check_targets()]
    host = read_host()
    return {
        "schema": "edgex.doctor/1",
        "edgex": __version__,
        "healthy": all(finding.status != "broken" for finding in findings),
        "findings": [finding.to_json() for finding in findings],
        "host": {
            "cpu": host.cpu,
            "machine": host.machine,
            "isa": None if host.isa is None else list(host.isa),
            "logical_cores": host.logical_cores,
            "usable_cores": host.usable_cores,
            "memory_bytes": host.memory_bytes,
            "system": host.system,
            "kernel": host.kernel,
            "python": host.python,
        },
        "packages": {name: environment.packages[name] for name in _RELEVANT if name in environment.packages},
        "variables": dict(environment.variables),
        # What a report about onnx-rocm needs; no session is started for it.
        "gpu": [check.to_json() for check in detect(run_session=False)],
    }


def _check_targets() -> list[Finding]:
    """A target whose package is broken; and an environment in which none works, which is of no use."""
    from edgex.cli.environment.targets import REGISTRATION, describe_targets
    from edgex.doctor.checks import Finding

    install = "pip install 'edgex-toolchain[xnnpack]', or with [onnx]; edgex targets says what each one lacks"
    targets = describe_targets()
    broken = [
        Finding("plug-ins", "broken", check["detail"], check["fix"])
        for target in targets
        for check in target["checks"]
        if check["name"] == REGISTRATION
    ]
    usable = [target["name"] for target in targets if target["available"]]
    if usable:
        return [*broken, Finding("targets", "ok", f"usable: {', '.join(usable)}")]
    runs = [target["name"] for target in targets if target["runs"]]
    if runs:
        text = f"artifacts of {', '.join(runs)} run here; nothing can be exported"
        return [*broken, Finding("targets", "warning", text, install)]
    return [*broken, Finding("targets", "broken", "no target can be used: nothing can be exported or run", install)]


_RELEVANT = (
    *("torch", "torchao", "executorch", "onnx", "onnxscript", "onnx-ir", "numpy", "safetensors", "onednn-cpu-gomp"),
    *("onnxruntime", "onnxruntime-migraphx", "onnxruntime-rocm", "onnxruntime-gpu", "onnxruntime-ep-migraphx"),
)

_COLOURS = {"ok": "green", "warning": "yellow", "broken": "red"}


def _print(document: dict[str, Any]) -> None:
    for finding in document["findings"]:
        text = f"{finding['check']}: {finding['text']}"
        echo_labelled(finding["status"], text, indent=0, width=9, colour=_COLOURS[finding["status"]])
        if finding["fix"]:
            echo_labelled("", f"fix: {finding['fix']}", indent=0, width=9)
    broken = sum(finding["status"] == "broken" for finding in document["findings"])
    click.echo("nothing is broken" if document["healthy"] else f"{broken} broken; edgex doctor --json for a report")
