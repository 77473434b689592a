"""`edgex report`: show saved profiles again, in the terminal or as files; measures nothing."""

from __future__ import annotations

import json
from pathlib import Path

import click

from edgex.cli.failure import print_json
from edgex.cli.measure.files import by_option, check_outputs, outputs_option, show_report, top_option, write_outputs
from edgex.cli.options.command import make_command
from edgex.cli.options.shared import force_option, json_option, quiet_option
from edgex.errors import UsageError

MAX_REPORTS = 4


@make_command("report")
@click.argument("reports", type=click.Path(path_type=Path), nargs=-1, required=True)
@outputs_option
@by_option
@top_option
@force_option
@json_option
@quiet_option
def command(
    reports: tuple[Path, ...],
    outputs: tuple[Path, ...],
    by: str | None,
    top: int,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Show profiles saved with `edgex profile -o NAME.json`; an .html takes up to four, side by side.

    Without -o they are printed one after the other; with --json as one document.
    """
    if len(reports) > MAX_REPORTS:
        raise UsageError(f"{len(reports)} reports: a page shows 1 to {MAX_REPORTS}")
    check_outputs(outputs, force, len(reports))
    from edgex.runtime.measure.profile.saved import read_report

    saved = [read_report(path) for path in reports]
    write_outputs(outputs, saved, [path.stem for path in reports], quiet=quiet)
    if as_json:
        print_json({"schema": "edgex.report/1", "reports": [json.loads(report.dumps()) for report in saved]})
    elif not outputs:
        for report in saved:
            show_report(report, by, top)
