"""`edgex sbom`: what an artifact is made of, as a CycloneDX document. Runs nothing of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgex.cli.failure import print_json
from edgex.cli.options.command import make_command, option
from edgex.cli.options.shared import accepted_quiet_option, artifact_argument, check_option

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import CheckLevel


@make_command("sbom")
@artifact_argument
@option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    group="Input and output",
    help="Write it to this file instead of the terminal.",
)
@check_option
@accepted_quiet_option
def command(artifact: str, output: Path | None, check: CheckLevel) -> None:
    """Print the bill of materials of ARTIFACT: CycloneDX 1.7 in JSON, with the model, its files, packages and proof."""
    import json

    from edgex.errors import ArtifactError
    from edgex.runtime.artifact.artifact import open_artifact
    from edgex.runtime.supply.sbom import make_sbom
    from edgex.runtime.support.publish import disk_errors, write_text

    document = make_sbom(open_artifact(artifact, check))
    if output is None:
        print_json(document)
        return
    with disk_errors(ArtifactError, f"cannot write {output}"):
        write_text(output, json.dumps(document, indent=2) + "\n")
