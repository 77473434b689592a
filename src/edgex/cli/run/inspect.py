"""`edgex inspect`: what an artifact is, needs and has proved. Runs nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgex.cli.failure import print_json
from edgex.cli.options.command import make_command
from edgex.cli.options.shared import accepted_quiet_option, artifact_argument, check_option, json_option

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import CheckLevel


@make_command("inspect")
@artifact_argument
@check_option
@json_option
@accepted_quiet_option
def command(artifact: str, check: CheckLevel, as_json: bool) -> None:
    """Show the manifest of ARTIFACT with its sizes, after checking that its files are whole."""
    from edgex.cli.render import print_artifact
    from edgex.cli.run.packages import find_needed
    from edgex.runtime.artifact.artifact import open_artifact
    from edgex.runtime.engines.onednn.compiled_sizes import describe_compiled_sizes

    opened = open_artifact(artifact, check)
    compiled = describe_compiled_sizes(opened)
    sizes = {
        "total_bytes": opened.total_bytes,
        "model_bytes": opened.manifest.model_bytes,
        "golden_bytes": opened.manifest.golden_bytes,
    }
    document = {
        "schema": "edgex.inspect/2",
        "path": artifact,
        "digest": opened.digest,
        "edited": opened.manifest.edited,
        **sizes,
        "compiled_sizes": compiled,
        "needs": find_needed(opened.manifest).to_json(),
        "manifest": opened.manifest.to_json(),
    }
    print_json(document) if as_json else print_artifact(document)
