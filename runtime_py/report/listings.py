"""The views of a report as tables of text, the same in the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from edgex.runtime.engines.trace.operators import OperatorRow, Trace
from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.report import views
from edgex.runtime.report.figures import count, format_bytes, format_row_time, format_seconds, format_share

By = Literal["operator", "module", "source", "delegate"]

_CONTEXT_LINES = 2
_FIGURES = ("time", "share", "GFLOP/s", "roofline")


@dataclass(frozen=True)
class Column:
    """A column's title; numbers stand right, text stands left and may be cut."""

    title: str
    numeric: bool = False


@dataclass(frozen=True)
class Listing:
    """A table of text.

    Attributes:
        title: What it shows.
        columns: Titles.
        rows: Cells, one for each column.
        notes: Sentences under it: what was left out, what could not be placed.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def list_view(report: ProfileReport, by: By, limit: int | None) -> list[Listing]:
    """The tables of one view, at most `limit` rows each where rows are ranked; None is all."""
    return _VIEWS[by](report, limit)


def describe_trace(report: ProfileReport) -> list[str]:
    """How operators were measured and how much of the run they explain; empty where they were not."""
    trace = report.trace
    if trace is None:
        return []
    return [
        *_describe_delegation(report),
        f"{count(len(report.ops), 'operator')}, medians of {count(trace.runs, 'traced run')}, each of which "
        f"{describe_tracing(trace)}",
        f"{format_share(trace.coverage)} of the traced run is in operators",
        f"{format_share(trace.module_share)} traced to a module, {format_share(trace.source_share)} to a source line",
    ]


def describe_tracing(trace: Trace) -> str:
    """`took 1.07 × the untraced median`: tracing costs time, so that operators add up to more than the latency."""
    return f"took {trace.overhead_ratio:.2f} × the untraced median"


def describe_unmapped(report: ProfileReport, unmapped: views.Group, what: str) -> str:
    """Where the time is that stands with no module or line: between operators, which have none, or unknown.

    Args:
        report: The profile.
        unmapped: The rows without.
        what: `module` or `line`.
    """
    total = views.total_seconds(report) or 1.0
    between = sum(report.ops[at].median_seconds or 0.0 for at in unmapped.rows if report.ops[at].category == "overhead")
    lost = max(0.0, unmapped.total_seconds - between)
    parts = [
        f"{format_row_time(seconds)} ({format_share(seconds / total)}) {words}."
        for seconds, words in (
            (between, "is the engine's time between operators"),
            (lost, f"of operators could be traced to no {what}"),
        )
        if seconds > 0
    ]
    return " ".join(parts)


def _describe_delegation(report: ProfileReport) -> list[str]:
    """The share of the multiply-adds that the delegate took, beside its measured share of the time."""
    planned = report.delegation
    if planned is None or not planned["delegate_calls"] or views.find_delegate(report) is None:
        return []
    taken = sum(row.share or 0.0 for row in report.ops if row.delegate is not None and row.category != "overhead")
    work = planned["work_fraction"]
    of_work = "" if work is None else f"{format_share(work)} of the multiply-adds, "
    calls = count(planned["delegate_calls"], "call")
    return [f"delegate: {of_work}{format_share(taken)} of the time, in {calls}"]


def list_fallbacks(report: ProfileReport, limit: int | None, *, reasons: bool = False) -> list[Listing]:
    """Operators of the model outside the artifact's delegate; empty where there are none.

    Args:
        report: The profile.
        limit: Most rows to show; None is all.
        reasons: With a column that says why the delegate left each out, as far as that is known.
    """
    entries = views.critical_fallbacks(report)
    if not entries:
        return []
    total = sum(entry.group.total_seconds for entry in entries)
    share = total / (views.total_seconds(report) or 1.0)
    title = f"outside {views.find_delegate(report) or 'any delegate'}: {format_row_time(total)}, {format_share(share)}"
    listing = _list_places(report, title, entries, limit)
    if reasons and any(entry.reason for entry in entries):
        rows = tuple((*row, entry.reason or "") for row, entry in zip(listing.rows, entries, strict=False))
        listing = replace(listing, columns=(*listing.columns, Column("why")), rows=rows)
    return [listing]


def warn_of_fallbacks(report: ProfileReport) -> str | None:
    """A sentence where compute outside the delegate takes more than `views.LOUD_FALLBACK_SHARE` of the time."""
    share = views.fallback_share(report)
    if share is None or share <= views.LOUD_FALLBACK_SHARE:
        return None
    worst = views.critical_fallbacks(report)[0]
    line = f" at {worst.source}" if worst.source else ""
    return (
        f"{format_share(share)} of the time runs outside {views.find_delegate(report) or 'any delegate'}, most of it "
        f"in {worst.operator}{line}: `edgex why ARTIFACT --profile REPORT.json` says why, and what to do"
    )


def list_places(report: ProfileReport, limit: int | None) -> Listing:
    """Operators by source line, the most time first: the shortest answer to where the time goes."""
    return _list_places(report, "where the time goes", views.by_place(report), limit)


def list_operators(report: ProfileReport, limit: int | None) -> list[Listing]:
    """Types of operators, then the operators themselves, slowest first."""
    order = views.by_time(report)
    shown = order[:limit]
    like = report.ops[order[0]].median_seconds if order else None
    rows = tuple(_operator_cells(report, at, like) for at in shown)
    columns = (Column("operator"), Column("module"), Column("source"), *_numbers(*_FIGURES))
    operators = Listing("operators", columns, rows, _left_out(len(order) - len(shown)) + _untimed(report))
    return [_list_groups("types of operators", "type", views.by_type(report), limit), operators]


def list_modules(report: ProfileReport, limit: int | None) -> list[Listing]:
    """The tree of modules, submodules indented under theirs, the slowest first."""
    tree = views.by_module(report)
    whole = views.total_seconds(report) or 1.0
    nodes = list(views.walk_modules(tree.root))
    kept = nodes
    if limit is not None and len(nodes) > limit:
        # The slowest, with the modules they stand in: a tree with holes could not be read.
        slowest = sorted(nodes, key=lambda entry: -entry[1].total_seconds)[:limit]
        paths = {node.path for _, node in slowest}
        kept = [entry for entry in nodes if entry[1].path in paths]
    like = tree.root.total_seconds
    rows = [
        (
            "  " * depth + (node.name or report.artifact.name),
            format_row_time(node.total_seconds or None, like),
            format_share(node.total_seconds / whole),
            format_row_time(node.self_seconds or None, like) if node.rows else "",
        )
        for depth, node in kept
    ]
    if tree.unmapped.rows:
        unmapped = tree.unmapped
        rows.append(
            (unmapped.name, format_row_time(unmapped.total_seconds or None, like), format_share(unmapped.share), "")
        )
    columns = (Column("module"), *_numbers("total", "share", "self"))
    return [Listing("modules", columns, tuple(rows), _left_out(len(nodes) - len(kept)))]


def list_source(report: ProfileReport) -> list[Listing]:
    """The user's files with the time of each line beside it; lines far from any time are left out."""
    view = views.by_source(report)
    listings = []
    for file in view.files:
        costly = {line.number for line in file.lines if line.group is not None}
        near = {number + offset for number in costly for offset in range(-_CONTEXT_LINES, _CONTEXT_LINES + 1)}
        rows: list[tuple[str, ...]] = []
        last = None
        for line in file.lines:
            if line.number not in near:
                continue
            if last is not None and line.number != last + 1:
                rows.append(("", "", "…", ""))
            last = line.number
            cost = (
                ("", "")
                if line.group is None
                else (format_row_time(line.group.total_seconds or None), format_share(line.group.share))
            )
            rows.append((*cost, str(line.number), line.text if line.text is not None else "(not in the report)"))
        title = f"{file.file}: {format_row_time(file.total_seconds)}, {format_share(file.share)}"
        columns = (*_numbers("time", "share", "line"), Column("source"))
        listings.append(Listing(title, columns, tuple(rows)))
    if view.unmapped.rows:
        unmapped = view.unmapped
        text = f"{unmapped.name}: {format_row_time(unmapped.total_seconds)}, {format_share(unmapped.share)}"
        listings.append(Listing(text, (), ()))
    return listings


def list_delegates(report: ProfileReport, limit: int | None) -> list[Listing]:
    """Who ran what kind of work, and then what ran outside the delegate."""
    groups = views.by_delegate(report)
    like = groups[0].total_seconds if groups else None
    rows = []
    for group in groups:
        rows.append((group.name, *_group_numbers(group, like)))
        kinds = dict.fromkeys(report.ops[at].category for at in group.rows)
        for kind in kinds if len(kinds) > 1 else ():
            part = [at for at in group.rows if report.ops[at].category == kind]
            total = sum(report.ops[at].median_seconds or 0.0 for at in part)
            share = total / (views.total_seconds(report) or 1.0)
            rows.append(
                (
                    f"  {views.name_kind(kind)}",
                    str(len(part)),
                    format_row_time(total or None, like),
                    format_share(share),
                )
            )
    table = Listing("who ran it", (Column("delegate"), *_numbers("operators", "time", "share")), tuple(rows))
    return [table, *list_fallbacks(report, limit)]


def list_memory(report: ProfileReport, limit: int | None) -> list[Listing]:
    """Peak resident set stage by stage, and the modules with the largest weights; empty where neither is known."""
    listings = []
    if report.memory.stages:
        rows, before = [], 0
        for stage in report.memory.stages:
            rows.append(
                (stage.stage, format_bytes(stage.peak_rss_bytes), f"+{format_bytes(stage.peak_rss_bytes - before)}")
            )
            before = stage.peak_rss_bytes
        columns = (Column("peak memory up to"), *_numbers("size", "grown by"))
        listings.append(Listing("memory by stage", columns, tuple(rows)))
    groups = views.weights_by_module(report)
    if groups:
        cells = tuple(
            (
                g.module_path or "(the model itself)",
                ", ".join(g.dtypes),
                str(g.tensors),
                format_bytes(g.bytes),
                format_share(g.share),
            )
            for g in groups[:limit]
        )
        columns = (Column("module"), Column("dtype"), *_numbers("tensors", "size", "share"))
        listings.append(Listing("weights by module", columns, cells, _left_out(len(groups) - len(cells))))
    return listings


_VIEWS: dict[By, Callable[[ProfileReport, int | None], list[Listing]]] = {
    "operator": list_operators,
    "module": list_modules,
    "source": lambda report, _limit: list_source(report),
    "delegate": list_delegates,
}


def _operator_cells(report: ProfileReport, at: int, like: float | None) -> tuple[str, ...]:
    row = report.ops[at]
    return (
        views.name_work(row) if row.count == 1 else f"{views.name_work(row)} x {row.count}",
        describe_module(row),
        row.source or "",
        format_row_time(row.median_seconds, like),
        format_share(row.share),
        "" if row.gflops is None else f"{row.gflops:,.1f}",
        "" if row.roofline_fraction is None else f"{100 * row.roofline_fraction:.0f} %",
    )


def describe_module(row: OperatorRow) -> str:
    """The row's module, with how many more were fused into it; words where there is none."""
    if row.category != "compute" and row.module_path is None:
        return f"({views.name_kind(row.category)})"
    if row.module_path is None:
        return "(unknown)"
    more = len(row.module_paths) - 1
    return _name_module(row.module_path) + (f" +{more}" if more > 0 else "")


def _name_module(path: str) -> str:
    return path or "(the model itself)"


def _list_places(report: ProfileReport, title: str, places: Sequence[views.Place], limit: int | None) -> Listing:
    like = places[0].group.total_seconds if places else None
    shown = places[:limit]
    rows = tuple((p.operator, _describe_place(report, p), *_group_numbers(p.group, like)) for p in shown)
    columns = (Column("operator"), Column("source"), *_numbers("count", "time", "share"))
    return Listing(title, columns, rows, _left_out(len(places) - len(shown)))


def _describe_place(report: ProfileReport, place: views.Place) -> str:
    """The line; where there is none, as in an `nn.Sequential`, the module."""
    modules = list(dict.fromkeys(path for at in place.group.rows if (path := report.ops[at].module_path)))
    if place.source is None and modules:
        return f"in {modules[0]}" if len(modules) == 1 else f"in {len(modules)} modules"
    return place.source or "no source line"


def _list_groups(title: str, noun: str, groups: Sequence[views.Group], limit: int | None) -> Listing:
    like = groups[0].total_seconds if groups else None
    shown = groups[:limit]
    rows = tuple((group.name, *_group_numbers(group, like)) for group in shown)
    columns = (Column(noun), *_numbers("operators", "time", "share"))
    return Listing(title, columns, rows, _left_out(len(groups) - len(shown)))


def _group_numbers(group: views.Group, like: float | None) -> tuple[str, str, str]:
    return (f"{len(group.rows):,}", format_row_time(group.total_seconds or None, like), format_share(group.share))


def _numbers(*titles: str) -> tuple[Column, ...]:
    return tuple(Column(title, numeric=True) for title in titles)


def _left_out(number: int) -> tuple[str, ...]:
    return (f"{count(number, 'row')} more",) if number > 0 else ()


def _untimed(report: ProfileReport) -> tuple[str, ...]:
    untimed = sum(row.median_seconds is None for row in report.ops)
    if not untimed or report.trace is None:
        return ()
    limit = format_seconds(report.trace.resolution_seconds, digits=2)
    return (f"{count(untimed, 'operator')} below the clock's resolution of {limit}",)
