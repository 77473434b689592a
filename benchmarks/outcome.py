"""What a benchmark hands back: a table, goals that are met or not, and all raw figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.publish import publish, read_data, read_origin, render_origin
from edgex._version import __version__
from edgex.runtime.report.figures import describe_host, format_seconds
from edgex.runtime.support.machine.activity import Activity, find_disturbances
from edgex.runtime.support.machine.host import read_host

SCHEMA = "edgex.benchmarks/1"
PACKAGES = ("torch", "executorch", "onnx", "onnxscript", "onnxruntime", "numpy")


@dataclass(frozen=True)
class Goal:
    """Something to reach.

    Attributes:
        text: The goal, with its number.
        measured: What was measured, with its unit.
        met: Computed from the data.
    """

    text: str
    measured: str
    met: bool


@dataclass(frozen=True)
class Outcome:
    """One benchmark's result.

    Attributes:
        name: Its name on the command line.
        title: For the page.
        notes: How it was measured, one sentence an entry.
        head: Column titles.
        rows: Cells as text.
        goals: What had to be reached.
        data: Raw figures, units in their names.
    """

    name: str
    title: str
    notes: Sequence[str]
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    goals: Sequence[Goal]
    data: Mapping[str, Any]

    def to_json(self, activity: Activity) -> dict[str, Any]:
        """The entry in the figures; `activity` is what else the machine did while it was measured."""
        found = {"machine": describe_machine(), "origin": read_origin(), "activity": activity.to_json()}
        return {**asdict(self), **found}


def describe_machine() -> dict[str, Any]:
    """The machine and the versions that the figures belong to."""
    host = read_host()
    versions = {"edgex": __version__, "python": host.python, **{name: version(name) for name in PACKAGES}}
    return {"summary": " · ".join(describe_host(host)), "cores": host.logical_cores, "versions": versions}


def show_seconds(samples: Sequence[float]) -> str:
    """Median and range, for example `412 ms (398 to 455)`."""
    middle = median(samples)
    low, high = (format_seconds(value, like=middle).split(" ")[0] for value in (min(samples), max(samples)))
    return f"{format_seconds(middle)} ({low} to {high})"


def write_page(folder: Path, entry: Mapping[str, Any]) -> None:
    """Bring `edgex.md` and its figures up to date with one entry; the others keep their figures."""
    known = read_data("edgex", folder)
    entries = {old["name"]: old for old in known["benchmarks"]} if known else {}
    entries[entry["name"]] = entry
    document = {"schema": SCHEMA, "benchmarks": [entries[name] for name in sorted(entries)]}
    publish("edgex", document, render_page(document["benchmarks"]), folder)


def render_page(entries: Sequence[Mapping[str, Any]]) -> str:
    """The page for benchmarks, each with its machine, its table and its goals."""
    parts = [
        "# What edgex itself costs",
        "Written by `make bench`, which runs edgex beside the bare engines and exporters, interleaved. Raw figures: "
        "[data/edgex.json](data/edgex.json).",
    ]
    for entry in entries:
        versions = ", ".join(f"{name} {number}" for name, number in entry["machine"]["versions"].items())
        parts += [
            f"## {entry['title']}",
            " ".join(entry["notes"]),
            render_table(entry["head"], entry["rows"]),
            render_goals(entry["goals"]),
            f"{render_origin(entry['origin'])} Machine: {entry['machine']['summary']}. Versions: {versions}.",
            render_warnings(entry["activity"], entry["machine"]["cores"]),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


def render_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, the first column left, the others right."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *rows))


def render_goals(goals: Sequence[Mapping[str, Any]]) -> str:
    """Goals as a list."""
    return "\n".join(f"- {'met' if g['met'] else '**not met**'}: {g['text']}; measured {g['measured']}" for g in goals)


def render_warnings(activity: Mapping[str, Any], cores: int | None) -> str:
    """What disturbed the measurement; empty where nothing did."""
    found = find_disturbances(Activity.from_json(activity), cores)
    return "".join(f"Warning ({warning.code}): {warning.text}. " for warning in found).strip()
