"""`edgex bundle`: an artifact with the native runner and its libraries, for Linux machines without Python."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgex.cli.failure import print_json
from edgex.cli.options.command import make_command, option
from edgex.cli.options.shared import (
    accepted_quiet_option,
    artifact_argument,
    check_option,
    force_option,
    json_option,
    method_option,
    output_option,
    timeout_option,
    verbose_option,
)
from edgex.cli.supervisor import supervise

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import CheckLevel


@make_command("bundle")
@artifact_argument
@method_option
@option(
    "--runtime",
    type=click.Choice(["linux-x86_64", "linux-aarch64"]),
    required=True,
    group="Target",
    help="The system that it is to run on.",
)
@output_option("The folder to write; default: NAME-RUNTIME.")
@option(
    "--executorch-wheel",
    type=click.Path(path_type=Path),
    metavar="FILE",
    group="Target",
    help="executorch's wheel for --runtime, where that is not this machine's; needed once.",
)
@check_option
@timeout_option
@force_option
@json_option
@accepted_quiet_option
@verbose_option
def command(
    artifact: str,
    method: str | None,
    runtime: str,
    output: Path | None,
    executorch_wheel: Path | None,
    check: CheckLevel,
    timeout: float | None,
    force: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    """Write ARTIFACT with a runner, libraries, golden data and a self-test into a folder: no Python needed there."""
    if executorch_wheel is not None:
        from edgex.runtime.execute.kit.wheel import check_wheel

        check_wheel(executorch_wheel, runtime.removeprefix("linux-"))

    def body() -> int:
        from edgex.cli.render import bold
        from edgex.runtime.artifact.artifact import open_artifact
        from edgex.runtime.execute.kit.bundle import check_output, write_bundle
        from edgex.runtime.report.figures import format_bytes

        if output is not None:
            check_output(output, force)
        opened = open_artifact(artifact, check).select(method)
        folder = output or Path(f"{opened.manifest.name}-{runtime}")
        bundle = write_bundle(opened, runtime, folder, executorch_wheel, force=force)
        if as_json:
            print_json({"schema": "edgex.bundle/1", **asdict(bundle), "path": str(bundle.path)})
            return 0
        click.echo(f"{bold(opened.manifest.name)}  {runtime}  {bundle.path}")
        click.echo(f"  size       {format_bytes(bundle.bytes)}")
        click.echo(f"  needs      glibc {bundle.libc} or newer; no Python")
        click.echo(f"  self-test  {bundle.cases} golden cases")
        click.echo(f"  next       copy it there, and: {bundle.path.name}/run.sh")
        if bundle.generates:
            click.echo(f"             {bundle.path.name}/generate.sh --ids 1,2,3 --max-new 64")
        return 0

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose)
