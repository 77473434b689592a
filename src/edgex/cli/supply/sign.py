"""`edgex sign`: vouch for an artifact with a key."""

from __future__ import annotations

from pathlib import Path

import click

from edgex.cli.failure import print_json
from edgex.cli.options.command import make_command, option
from edgex.cli.options.shared import accepted_quiet_option, artifact_argument, json_option


@make_command("sign")
@artifact_argument
@option(
    "--key",
    type=click.Path(path_type=Path),
    required=True,
    group="Input and output",
    help="The private key: PEM, elliptic curve, without a password.",
)
@json_option
@accepted_quiet_option
def command(artifact: str, key: Path, as_json: bool) -> None:
    """Sign ARTIFACT with a key, offline: `model.sig` in its folder, which `edgex verify --signed-by` checks."""
    from edgex.runtime.artifact.artifact import open_artifact
    from edgex.runtime.supply.signature import sign_artifact

    opened = open_artifact(artifact, "hash")
    path = sign_artifact(opened, key)
    document = {"schema": "edgex.sign/1", "artifact": artifact, "digest": opened.digest, "signature": path.name}
    print_json(document) if as_json else click.echo(f"signed: {path}")
