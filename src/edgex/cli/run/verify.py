"""`edgex verify`: run an artifact's golden cases on this machine and hold them against eager's recorded answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgex.cli.failure import print_json
from edgex.cli.options.command import make_command, option
from edgex.cli.options.shared import (
    allow_fallback_option,
    artifact_argument,
    check_option,
    json_option,
    threads_option,
    timeout_option,
    verbose_option,
)
from edgex.cli.run.on_device import Elsewhere, describe_answer, device_flags, read_device
from edgex.cli.supervisor import supervise

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import CheckLevel


@make_command("verify")
@artifact_argument
@check_option
@threads_option("Threads of the run; default: the engine's own.")
@allow_fallback_option
@option(
    "--cpu-reference",
    is_flag=True,
    group="Target",
    help="Run an artifact for a GPU on the engine's CPU: says nothing about the GPU.",
)
@device_flags
@timeout_option
@json_option
@verbose_option
def command(
    artifact: str,
    check: str,
    threads: int | None,
    allow_fallback: bool,
    cpu_reference: bool,
    device: str | None,
    executorch_wheel: Path | None,
    device_python: str | None,
    timeout: float | None,
    as_json: bool,
    verbose: bool,
) -> None:
    """Check ARTIFACT again on this machine, or a device. Exit code 4 if its outputs are not eager PyTorch's."""
    refused = {"--allow-fallback": allow_fallback, "--cpu-reference": cpu_reference}
    elsewhere = read_device(device, executorch_wheel, device_python, refused)

    def body() -> int:
        from edgex.cli.render import print_verification
        from edgex.runtime.engines.loading import load
        from edgex.runtime.session.replay import replay_artifact

        chosen = {"allow_fallback": allow_fallback, "cpu_reference": cpu_reference}
        options = {name: True for name, given in chosen.items() if given}
        level: CheckLevel = "size" if check == "size" else "hash"
        if elsewhere is not None:
            document = _verify_on_device(elsewhere, artifact, level, threads)
            print_json(document) if as_json else print_verification(document)
            return 0 if document["passed"] else 4
        # A proof depends on what it is given, never on what this user's cache holds.
        with load(artifact, threads=threads, options=options, check=level, tuned=False) as session:
            verdict = replay_artifact(session.artifact, session)
        document = {"schema": "edgex.verify/1", **verdict.to_json(), "device": None}
        print_json(document) if as_json else print_verification(document)
        return 0 if verdict.passed else 4

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose)


def _verify_on_device(elsewhere: Elsewhere, path: str, check: CheckLevel, threads: int | None) -> dict[str, Any]:
    """Run the golden cases on a device; the `edgex.verify/1` document."""
    from edgex.cli.progress import StageProgress
    from edgex.runtime.artifact.artifact import open_artifact
    from edgex.runtime.measure.device.commands import verify_on

    artifact = open_artifact(path, check)
    with StageProgress() as progress, elsewhere.opened([artifact]) as device:
        verdict, answer = verify_on(device, artifact, threads, progress)
    return {"schema": "edgex.verify/1", **verdict.to_json(), "device": describe_answer(answer)}
