"""`edgex report`: show saved profiles again, in the terminal or as files; measures nothing."""

from __future__ import annotations

from pathlib import Path

import click

from edgex.cli.measure.files import OUTPUT_HELP, VIEWS, check_outputs, show_report, write_outputs
from edgex.errors import UsageError

MAX_REPORTS = 4


@click.command("report")
@click.argument("reports", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("-o", "--output", "outputs", type=click.Path(path_type=Path), multiple=True, help=OUTPUT_HELP)
@click.option("--by", type=click.Choice(VIEWS), help="List operators by this; default: where the time goes.")
@click.option("--top", type=click.IntRange(min=1), default=20, show_default=True, help="Rows of a list.")
@click.option("--force", is_flag=True, help="Replace existing files.")
def command(reports: tuple[Path, ...], outputs: tuple[Path, ...], by: str | None, top: int, force: bool) -> None:
    """Show profiles saved with `edgex profile -o NAME.json`; an .html takes up to four, side by side.

    Without -o they are printed one after the other.
    """
    if len(reports) > MAX_REPORTS:
        raise UsageError(f"{len(reports)} reports: a page shows 1 to {MAX_REPORTS}")
    check_outputs(outputs, force, len(reports))
    from edgex.runtime.measure.profile.saved import read_report

    saved = [read_report(path) for path in reports]
    write_outputs(outputs, saved, [path.stem for path in reports])
    if not outputs:
        for report in saved:
            show_report(report, by, top)
