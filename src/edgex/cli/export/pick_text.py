"""What `edgex pick` prints: the table of all combinations, why each is not the best, and the plan of a dry run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgex.cli.failure import print_json
from edgex.cli.layout import echo_labelled, print_table
from edgex.runtime.report.figures import count, format_bytes, format_options, format_seconds
from edgex.runtime.report.pages.pick import name_of

if TYPE_CHECKING:
    from edgex.export.pick.plan import PickPlan

_COLOURS = {"picked": "green", "draw": "cyan"}


def print_pick(document: Mapping[str, Any]) -> None:
    """The `edgex.pick/1` document as a table, the reasons below it."""
    rows = document["candidates"]
    timed = [row for row in rows if row["median_seconds"] is not None]
    like = min((row["median_seconds"] for row in timed), default=None)
    table = [("", "artifact", "latency", "threads", "error", "size", "verdict")]
    for row in rows:
        table.append(
            (
                "*" if row["pareto"] else "",
                name_of(row),
                "" if row["median_seconds"] is None else format_seconds(row["median_seconds"], like),
                "" if row["threads"] is None else str(row["threads"]),
                "" if row["error_db"] is None else f"{row['error_db']:.1f} dB",
                "" if row["bytes"] is None else format_bytes(row["bytes"]),
                row["verdict"],
            )
        )
    print_table(table)
    click.echo(f"* nothing is better in latency, error and size at once; errors on {document['judge']}")
    for row in rows:
        settings = f"with {format_options(row['engine_options'])}" if row["engine_options"] else ""
        text = ": ".join(part for part in (settings, row["reason"]) if part)
        if text:
            echo_labelled(f"{name_of(row)}:", text, width=22, colour=_COLOURS.get(row["verdict"]))
    winner = document["winner"]
    if winner is None:
        click.echo("interrupted before a winner was known; nothing was kept", err=True)
        return
    options = "".join(f" and {format_options({name: value})}" for name, value in winner["engine_options"].items())
    click.echo(
        click.style(f"picked {name_of(winner)}", fg="green", bold=True)
        + f" with {count(winner['threads'], 'thread')}{options}: {winner['path']}"
    )


def print_plan(plan: PickPlan, *, as_json: bool) -> None:
    """What a pick would do."""
    if as_json:
        print_json(
            {
                "schema": "edgex.pick-plan/1",
                "candidates": [candidate.to_json() for candidate in plan.possible],
                "refused": [
                    {**loser.candidate.to_json(), "reason": loser.reason, "fix": loser.fix} for loser in plan.refused
                ],
                "threads": list(plan.threads),
                "settings": {
                    target: [dict([setting]) for setting in settings] for target, settings in plan.settings.items()
                },
                "heat_processes": plan.heat_processes,
                "max_seconds": plan.max_seconds,
            }
        )
        return
    threads = ", ".join(map(str, plan.threads))
    for candidate in plan.possible:
        click.echo(f"export and prove  {candidate.label}")
    for loser in plan.refused:
        echo_labelled("refused", f"{loser.candidate.label}: {loser.reason}", indent=0, width=18, colour="yellow")
    for target, settings in plan.settings.items():
        shown = "; ".join(format_options(dict([setting])) for setting in settings)
        echo_labelled("settings", f"{target}: {shown}", indent=0, width=18)
    click.echo(
        f"then time them with {threads} threads: up to {plan.heat_processes} short blocks, each in a fresh process,"
    )
    if plan.settings:
        click.echo("settings one at a time for those that are close, and none that changes a bit of the outputs,")
    click.echo(f"and those that are close in turns for at most {plan.max_seconds:g} s, beside starting processes")


def write_report(path: Path, document: Mapping[str, Any], *, quiet: bool) -> None:
    """The document, or its page."""
    from edgex.cli.files import write_text
    from edgex.runtime.report.pages.pick import render_pick

    if path.suffix == ".json":
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    else:
        text = render_pick(document)
    write_text(path, text, quiet=quiet)
