"""`edgex verify`: run an artifact's golden cases and compare what comes out with eager's recorded answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgex.cli.failure import print_json
from edgex.cli.options.command import make_command, option
from edgex.cli.options.shared import (
    allow_fallback_option,
    artifact_argument,
    check_option,
    common_options,
    method_option,
    threads_option,
)
from edgex.cli.run.place import device_flags, read_place
from edgex.cli.supervisor import supervise

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import CheckLevel


@make_command("verify")
@artifact_argument
@method_option
@check_option
@threads_option("Threads of the run; default: the engine's own.")
@allow_fallback_option
@option(
    "--cpu-reference",
    is_flag=True,
    group="Target",
    help="Run an artifact for a GPU on the engine's CPU: says nothing about the GPU.",
)
@option(
    "--signed-by",
    metavar="KEY",
    type=click.Path(path_type=Path),
    group="Target",
    help="Check first that the owner of this public key (PEM) signed it: see edgex sign.",
)
@option(
    "--trust-code",
    is_flag=True,
    group="Target",
    help="Let compiled code that was made elsewhere run here, from now on (target aoti): see SECURITY.md.",
)
@device_flags
@common_options()
def command(
    artifact: str,
    method: str | None,
    check: CheckLevel,
    threads: int | None,
    allow_fallback: bool,
    cpu_reference: bool,
    signed_by: Path | None,
    trust_code: bool,
    device: str | None,
    timeout: float | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Check ARTIFACT again on this machine, or a device. Exit code 4 if its outputs are not eager PyTorch's."""
    refused = {"--allow-fallback": allow_fallback, "--cpu-reference": cpu_reference}
    place = read_place(device, refused)

    def body() -> int:
        from edgex.cli.render import print_verification
        from edgex.runtime.artifact.artifact import open_artifact
        from edgex.runtime.execute.verification import verify

        chosen = {"allow_fallback": allow_fallback, "cpu_reference": cpu_reference}
        options = {name: True for name, given in chosen.items() if given}
        signature = None
        if signed_by is not None:
            from edgex.runtime.supply.signature import SIGNATURE_FILE, verify_signature

            # Before anything else of it is read.
            signature = {"file": SIGNATURE_FILE, "key_sha256": verify_signature(Path(artifact), signed_by)}
        opened = open_artifact(artifact, check).select(method)
        if trust_code:
            from edgex.runtime.engines.aoti.consent import trust_artifact

            trust_artifact(opened)
        # A proof depends on what it is given, never on what this user's cache holds: no tuned threads.
        with place.progress(quiet=quiet) as progress, place.opened([opened]) as executor:
            verdict, answer = verify(executor, opened, threads=threads, options=options, progress=progress)
        document = {"schema": "edgex.verify/1", **verdict.to_json(), "device": answer.describe_device()}
        document["signature"] = signature
        print_json(document) if as_json else print_verification(document)
        return 0 if verdict.passed else 4

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose)
