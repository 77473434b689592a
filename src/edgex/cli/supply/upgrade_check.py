"""`edgex upgrade-check`: what another environment would make of the same models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from edgex.cli.failure import print_json
from edgex.cli.options.command import make_command, option
from edgex.cli.options.shared import common_options, targets_option
from edgex.cli.supervisor import supervise


@make_command("upgrade-check")
@click.argument("models", nargs=-1, required=True, metavar="MODELS...")
@option(
    "--against",
    type=click.Path(path_type=Path),
    required=True,
    metavar="VENV",
    group="Target",
    help="The other environment: its folder, or its Python; it has edgex and other versions of the engines.",
)
@targets_option("What to export to: several by comma or repeated; default: all that work here.")
@option(
    "--runs",
    type=click.IntRange(min=0),
    default=200,
    show_default=True,
    metavar="N",
    group="Measurement",
    help="Samples of each of two measurements; 0 times nothing.",
)
@common_options()
def command(
    models: tuple[str, ...],
    against: Path,
    targets: tuple[str, ...],
    runs: int,
    timeout: float | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Export MODELS here and in another environment, and compare. Exit code 4 where the other one does worse."""

    def body() -> int:
        from edgex.cli.flags import split_list
        from edgex.cli.progress import StageProgress
        from edgex.delegates.registry import delegate_names, get_delegate
        from edgex.export.upgrade.check import WORSE, check_upgrade
        from edgex.export.upgrade.environment import open_environment

        named = split_list("-t", targets)
        here, there = open_environment(None), open_environment(against)
        usable = (name for name in delegate_names() if get_delegate(name).availability().available)
        chosen = named or tuple(usable)
        with StageProgress(quiet=quiet) as progress:
            rows = check_upgrade(models, chosen, here, there, runs=runs, progress=progress)
        worse = sum(1 for row in rows if set(row.changes) & set(WORSE))
        document = {
            "schema": "edgex.upgrade-check/1",
            "here": here.versions,
            "there": there.versions,
            "worse": worse,
            "rows": [row.to_json() for row in rows],
        }
        print_json(document) if as_json else _print(document)
        return 4 if worse else 0

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose)


def _print(document: Mapping[str, Any]) -> None:
    from edgex.cli.layout import print_table

    here, there = document["here"], document["there"]
    versions = [(name, here[name] or "none", there[name] or "none") for name in here if here[name] != there[name]]
    if versions:
        print_table([("version", "here", "there"), *versions])
    else:
        click.echo("the same versions here and there")
    click.echo()
    rows = [("model", "target", "here", "there", "delegated", "ms", "changes")]
    for row in document["rows"]:
        one, other = row["here"], row["there"]
        rows.append(
            (
                row["model"],
                row["target"],
                one["status"],
                other["status"],
                _both(one, other, lambda side: f"{side['delegated_ops']}/{side['total_ops']}", "delegated_ops"),
                _both(one, other, lambda side: f"{side['median_seconds'] * 1e3:.3g}", "median_seconds"),
                "; ".join([", ".join(row["changes"]), *row["details"]]) if row["changes"] else "none",
            )
        )
    print_table(rows)
    count = document["worse"]
    click.echo(f"{count} of {len(document['rows'])} would be worse there" if count else "nothing would be worse there")


def _both(one: Mapping[str, Any], other: Mapping[str, Any], show: Any, key: str) -> str:
    sides = ["-" if side[key] is None else show(side) for side in (one, other)]
    return sides[0] if sides[0] == sides[1] else " -> ".join(sides)
