"""`edgex report`: show saved profiles, or a sweep's results, in the terminal or as files; measures nothing."""

from __future__ import annotations

import json
from pathlib import Path

import click

from edgex.cli.failure import print_json
from edgex.cli.measure.report_files import (
    by_option,
    check_outputs,
    outputs_option,
    show_report,
    top_option,
    write_outputs,
)
from edgex.cli.options.command import make_command, option
from edgex.cli.options.shared import force_option, json_option, quiet_option
from edgex.errors import UsageError

MAX_REPORTS = 4


@make_command("report")
@click.argument("reports", type=click.Path(path_type=Path), nargs=-1, required=True)
@outputs_option
@by_option
@top_option
@option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    group="Measurement",
    help="Results of a sweep: compare them with those of a former one.",
)
@option(
    "--fail-on",
    metavar="PERCENT",
    group="Proof and limits",
    help="With --against: exit with code 4 if a job newly fails, or is surely slower by more than this: 3%.",
)
@force_option
@json_option
@quiet_option
def command(
    reports: tuple[Path, ...],
    outputs: tuple[Path, ...],
    by: str | None,
    top: int,
    against: Path | None,
    fail_on: str | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Show profiles saved with `edgex profile -o NAME.json`; an .html takes up to four, side by side.

    Without -o they are printed one after the other; with --json as one document. The folder of results of edgex sweep
    is shown as a scorecard.
    """
    if any(path.is_dir() for path in reports):
        if len(reports) > 1:
            raise UsageError("results of a sweep are shown alone", fix="compare them with --against FOLDER")
        if by is not None:
            raise UsageError("--by is for saved profiles", fix="leave --by out")
        from edgex.cli.measure.scorecard import report_results

        report_results(reports[0], against, fail_on, outputs, top, force=force, as_json=as_json, quiet=quiet)
        return
    if against is not None or fail_on is not None:
        raise UsageError(
            "--against and --fail-on are for the results of a sweep", fix="edgex compare OLD.json NEW.json --fail-on 3%"
        )
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
