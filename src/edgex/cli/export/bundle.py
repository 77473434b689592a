"""`edgex bundle`: an artifact with the native runner and its libraries, for Linux machines without Python."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from edgex.cli.failure import print_json
from edgex.cli.supervisor import supervise


@click.command("bundle")
@click.argument("artifact", type=click.Path())
@click.option(
    "--runtime", type=click.Choice(["linux-x86_64", "linux-aarch64"]), required=True, help="System it is to run on."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The folder; default: NAME-RUNTIME.")
@click.option(
    "--executorch-wheel",
    type=click.Path(path_type=Path),
    help="executorch's wheel for --runtime, where that is not this machine's; once.",
)
@click.option("--check", type=click.Choice(["hash", "size"]), default="hash", show_default=True)
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds after which it is stopped.")
@click.option("--force", is_flag=True, help="Replace an existing bundle.")
@click.option("--json", "as_json", is_flag=True, help="One document on stdout.")
@click.option("-v", "--verbose", is_flag=True, help="Full tracebacks.")
def command(
    artifact: str,
    runtime: str,
    output: Path | None,
    executorch_wheel: Path | None,
    check: str,
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
        from edgex.cli.render import bold, format_bytes
        from edgex.runtime.artifact.artifact import open_artifact
        from edgex.runtime.execute.kit.bundle import check_output, write_bundle

        if output is not None:
            check_output(output, force)
        opened = open_artifact(artifact, "size" if check == "size" else "hash")
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
        return 0

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose)
