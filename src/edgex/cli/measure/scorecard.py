"""`edgex report` of a sweep's results: in the terminal, as a page, and compared with a former sweep."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from edgex.cli.failure import print_json
from edgex.cli.files import check_output, write_text
from edgex.cli.layout import echo_labelled, list_some, print_table
from edgex.errors import UsageError, VerificationError
from edgex.runtime.report.figures import format_seconds

_FORMS = (".html", ".json")


def report_results(
    folder: Path,
    against: Path | None,
    fail_on: str | None,
    outputs: Sequence[Path],
    top: int,
    *,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Show what a sweep found.

    Raises:
        UsageError: A flag or a folder is wrong.
        VerificationError: `--fail-on` does not hold.
    """
    from edgex.runtime.measure.compare.gate import parse_limit
    from edgex.runtime.measure.results.difference import find_difference
    from edgex.runtime.measure.results.folder import read_plan, read_rows
    from edgex.runtime.measure.results.scorecard import make_scorecard

    limit = None if fail_on is None else parse_limit(fail_on)
    if limit is not None and against is None:
        raise UsageError("--fail-on needs results to compare with", fix="--against FOLDER, a former sweep's results")
    for output in outputs:
        check_output(output, _FORMS, force)
    for place in (folder, against):
        if place is not None:
            read_plan(place)
    rows = read_rows(folder)
    difference = None
    if against is not None:
        difference = (_name(against), find_difference(read_rows(against), rows))
    document = make_scorecard(_name(folder), rows, difference, limit)
    for output in outputs:
        write_text(output, _render(output, document), quiet=quiet)
    if as_json:
        print_json(document)
    elif not outputs:
        print_scorecard(document, top)
    if document["fail_on"] is not None and document["fail_on"]["failed"]:
        failed = document["fail_on"]["failed"]
        raise VerificationError(
            f"{len(failed)} jobs are newly failing, or surely slower by more than {fail_on}",
            why="\n".join(f"{c['model']}, {c['artifact']}: {c['kind']}: {c['detail']}" for c in failed[:top]),
        )


def _name(folder: Path) -> str:
    return folder.resolve().name


def _render(path: Path, document: Mapping[str, Any]) -> str:
    if path.suffix == ".json":
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    from edgex.runtime.report.pages.scorecard import render_scorecard

    return render_scorecard(document)


def print_scorecard(document: Mapping[str, Any], top: int) -> None:
    """Coverage with reasons, latencies, outliers and changes, the first few of each.

    Args:
        document: An `edgex.scorecard/1`.
        top: How many of a list.
    """
    click.echo(
        f"{document['name']}: {document['models']} models, {document['jobs']} jobs, {document['failed']} failed"
        + (f", {document['jobs'] - document['complete']} not measured yet" * (document["complete"] < document["jobs"]))
    )
    click.echo()
    latency = {(entry["artifact"], entry["device"]): entry for entry in document["latency"]}
    table = [("artifact", "jobs", "verified", "assembled", "failed", "median latency", "times the best")]
    for entry in document["coverage"]:
        counts = [str(entry[key]) for key in ("jobs", "verified", "assembled", "failed")]
        timed = latency.get((entry["artifact"], "here"))
        times = "" if timed is None or timed["times_the_best"] is None else f"{timed['times_the_best']:.2f}"
        middle = "" if timed is None else format_seconds(timed["median_seconds"])
        table.append((entry["artifact"], *counts, middle, times))
    print_table(table)
    reasons = [(entry["artifact"], reason) for entry in document["coverage"] for reason in entry["reasons"]]
    if reasons:
        click.echo("\nfailed")
    for artifact, reason in reasons[:top]:
        models = list_some(reason["models"], 3)
        echo_labelled(f"{reason['count']} x {artifact}", f"{reason['stage']}: {reason['what']} ({models})", width=18)
    if document["outliers"]:
        click.echo("\noutliers")
    for outlier in document["outliers"][:top]:
        echo_labelled(outlier["figure"], f"{outlier['model']}, {outlier['artifact']}: {outlier['detail']}", width=18)
    if document["difference"] is not None:
        _print_difference(document["difference"], top)


def _print_difference(difference: Mapping[str, Any], top: int) -> None:
    worse, better = difference["worse"], len(difference["changes"]) - difference["worse"]
    click.echo(
        f"\nagainst {difference['against']}: {difference['compared']} jobs of both, {difference['timed']} latencies "
        f"compared; {worse} changes for the worse, {better} for the better"
    )
    if difference["other_machine"]:
        click.echo(f"{difference['other_machine']} latencies are of another machine and were not compared")
    for change in difference["changes"][:top]:
        colour = "yellow" if change["worse"] else "green"
        text = f"{change['model']}, {change['artifact']}: {change['detail']}"
        echo_labelled(change["kind"], text, width=18, colour=colour)
