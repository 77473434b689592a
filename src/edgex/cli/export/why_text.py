"""What `edgex why` prints for people: targets side by side, then every operator left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from edgex.cli.layout import echo_labelled, list_some, print_table
from edgex.cli.render import bold
from edgex.delegates.plan import reads_size

_MODULES_SHOWN = 3


def print_why(document: Mapping[str, Any]) -> None:
    """The table of targets, and a block for each that leaves something."""
    targets = document["targets"]
    if targets:
        print_table([_HEAD, *(_row(target) for target in targets)])
    for target in targets:
        if target["delegation"]["fallbacks"]:
            click.echo(f"\n{bold(_name_of(target))} leaves out:")
        for fallback in target["delegation"]["fallbacks"]:
            _print_fallback(fallback)
    for failure in document["failures"]:
        click.echo(f"\n{bold(failure['target'])} has no answer: {failure['what']}")
        _print_details(failure)
    if document["blockers"]:
        count = len(document["blockers"])
        click.echo(bold(f"the model cannot be captured: {count} blocker{'' if count == 1 else 's'}"))
    for number, blocker in enumerate(document["blockers"], 1):
        click.echo(f"\n{number}. {blocker['what']}")
        _print_details(blocker)


_HEAD = ("target", "operators", "work", "calls", "exportable", "time left out", "rewrites")


def _name_of(target: Mapping[str, Any]) -> str:
    return f"{target['target']}, {target['method']}" if "method" in target else str(target["target"])


def _row(target: Mapping[str, Any]) -> tuple[str, ...]:
    delegation = target["delegation"]
    work = delegation["work_fraction"]
    share = target["fallback_share"]
    rewrites = ", ".join(f"{rewrite['name']} x {rewrite['count']}{_gain_of(rewrite)}" for rewrite in target["rewrites"])
    return (
        _name_of(target),
        f"{delegation['delegated_ops']} of {delegation['total_ops']}, {delegation['fraction']:.1%}",
        "unknown" if work is None else f"{work:.1%}",
        str(delegation["delegate_calls"]),
        "yes" if target["exportable"] else "no",
        "not measured" if share is None else f"{share:.1%}",
        rewrites or "none",
    )


def _gain_of(rewrite: Mapping[str, Any]) -> str:
    """What a rewrite won: operators that are left out without it."""
    return f" (+{rewrite['won']})" if rewrite.get("won") else ""


def _print_fallback(fallback: Mapping[str, Any]) -> None:
    cost = fallback["measured"]
    paid = "" if cost is None else f"  {cost['median_seconds'] * 1e3:.3f} ms, {cost['share']:.1%}"
    fatal = click.style("  cannot run here", fg="red") if fallback["fatal"] else ""
    click.echo(f"  {fallback['count']} x {fallback['op']}  [{fallback['code']}]{paid}{fatal}")
    modules = [module or "the model" for module in fallback["modules"]]
    inside = f" in {list_some(modules, _MODULES_SHOWN)}" if modules else ""
    source = fallback["source"] or "no source line"
    lines = [
        ("where", "a dynamic size is read" if reads_size(fallback["op"]) else f"{source}{inside}"),
        ("why", fallback["reason"]),
        ("workaround", fallback["workaround"]),
        ("rewrite", fallback["rewrite"] and f"{fallback['rewrite']} does it: leave --no-rewrite out"),
        ("taken by", ", ".join(fallback["taken_by"])),
    ]
    for label, text in lines:
        if text:
            echo_labelled(label, text, indent=6)


def _print_details(entry: Mapping[str, Any]) -> None:
    for label in ("where", "why", "fix"):
        if entry[label]:
            echo_labelled(label, entry[label], indent=6)
