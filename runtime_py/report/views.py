"""The operators of a report seen from one side at a time: by type, module, source line or delegate; fallbacks; memory.

Every view is a partition: what it shows and what it could not place add up to the same total, the sum of the traced
operators. A row without a time (below the clock's resolution) counts as 0 in sums and is counted in `untimed`.
Times are seconds. Rows are named by their index in `report.ops`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from edgex.runtime.engines.trace.operators import OperatorRow
from edgex.runtime.measure.profile.report import ProfileReport

# Only these were traced to a module or a line; the others know the region at best.
_MAPPED = ("exact", "aligned")

# Above this share of the time, what a delegate left out is said loudly.
LOUD_FALLBACK_SHARE = 0.2

# What an engine calls kernels of its own in `executed_on`.
_OWN_KERNELS = "portable"


# What a kind of work is called where people read it. `overhead` is no cost of measuring: that is the traced runs'.
_KIND_WORDS = {"overhead": "between operators"}
# What makes names of rows unique.
_NUMBER = re.compile(r" \(\d+\)$")


def name_kind(kind: str) -> str:
    """A kind of work in words."""
    return _KIND_WORDS.get(kind, kind)


def name_work(row: OperatorRow) -> str:
    """The type of an operator; for time between operators, whose time it is: `XnnpackBackend: between operators`."""
    return _NUMBER.sub("", row.name) if row.op_type == "overhead" else row.op_type


@dataclass(frozen=True)
class Group:
    """Rows that share something.

    Attributes:
        name: What they share, for example the type.
        rows: Indices into `ops`, in order of execution.
        total_seconds: Their times, summed.
        share: Of all rows' time, 0 to 1; None where no row has a time.
        untimed: Rows below the clock's resolution.
    """

    name: str
    rows: tuple[int, ...]
    total_seconds: float
    share: float | None
    untimed: int


@dataclass(frozen=True)
class Place:
    """An operator on a source line, however often it runs there.

    Attributes:
        operator: ATen name where it is known, else the engine's.
        source: `file.py:line`, or None.
        group: Its rows; the group's name is `operator`.
        reason: Why the delegate left it out, as planned at export; None where that is not known.
    """

    operator: str
    source: str | None
    group: Group
    reason: str | None = None


@dataclass(frozen=True)
class ModuleNode:
    """A module with its own operators and its submodules.

    Attributes:
        path: Path in the model, `""` for the model itself.
        name: Last part of the path.
        total_seconds: Own operators and those of all submodules.
        self_seconds: Own operators alone.
        rows: Own operators.
        children: Submodules in order of first execution.
    """

    path: str
    name: str
    total_seconds: float
    self_seconds: float
    rows: tuple[int, ...]
    children: tuple[ModuleNode, ...]


@dataclass(frozen=True)
class ModuleTree:
    """The model's modules, and what belongs to none of them as far as is known; both add up to all operators."""

    root: ModuleNode
    unmapped: Group


@dataclass(frozen=True)
class SourceLine:
    """A line of the user's file: its number, its text (None where the report does not hold it), its operators."""

    number: int
    text: str | None
    group: Group | None


@dataclass(frozen=True)
class SourceFile:
    """A file of the model.

    Attributes:
        file: As in the rows' `source`.
        total_seconds: All its lines.
        share: Of all rows' time.
        lines: Those that the report holds or that have operators, by number; gaps are possible.
    """

    file: str
    total_seconds: float
    share: float | None
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True)
class SourceView:
    """The files, most time first, and what is traced to no line; both add up to all operators."""

    files: tuple[SourceFile, ...]
    unmapped: Group


@dataclass(frozen=True)
class WeightGroup:
    """The weights of one module: bytes together, dtypes, and how many tensors."""

    module_path: str
    bytes: int
    share: float
    dtypes: tuple[str, ...]
    tensors: int


def total_seconds(report: ProfileReport) -> float:
    """All rows' time, summed."""
    return sum(row.median_seconds or 0.0 for row in report.ops)


def by_time(report: ProfileReport) -> tuple[int, ...]:
    """Rows, slowest first; those without a time last, in order of execution."""
    return tuple(sorted(range(len(report.ops)), key=lambda at: -(report.ops[at].median_seconds or 0.0)))


def by_type(report: ProfileReport) -> tuple[Group, ...]:
    """Rows of one `op_type` together, most time first."""
    return _group_by(report, name_work)


def by_delegate(report: ProfileReport) -> tuple[Group, ...]:
    """Who ran what, most time first; the engine's own kernels under the engine's name."""
    return _group_by(report, lambda row: row.delegate or own_kernels(report))


def by_category(report: ProfileReport) -> tuple[Group, ...]:
    """Kinds of work in a fixed order: compute, fallback, layout, cast, overhead; only those that occur.

    `fallback` is compute outside the artifact's delegate.
    """
    outside = set(fallback_rows(report))
    groups = {
        group.name: group
        for group in _group_indexed(report, lambda at, row: "fallback" if at in outside else str(row.category))
    }
    return tuple(groups[name] for name in ("compute", "fallback", "layout", "cast", "overhead") if name in groups)


def own_kernels(report: ProfileReport) -> str:
    """What to call the engine's own kernels."""
    return f"{report.artifact.engine}'s own kernels"


def find_delegate(report: ProfileReport) -> str | None:
    """The delegate that the artifact was made for: the first in `executed_on` that ran any operator.

    None for an engine without delegates, and where the delegate took nothing.
    """
    _, _, names = report.executed_on.partition(": ")
    ran = {row.delegate for row in report.ops}
    return next((name for name in names.split(", ") if name in ran), None)


def fallback_rows(report: ProfileReport) -> tuple[int, ...]:
    """Rows of category compute that ran outside the artifact's delegate, in order of execution.

    Empty for an engine that has no delegates. Where the delegate took nothing, all of them.
    """
    delegate = find_delegate(report)
    if delegate is None and not report.executed_on.endswith(_OWN_KERNELS):
        return ()
    outside = (delegate is None or row.delegate != delegate for row in report.ops)
    return tuple(at for at, out in enumerate(outside) if out and report.ops[at].category == "compute")


def fallback_share(report: ProfileReport) -> float | None:
    """Part of the operators' time that compute outside the artifact's delegate takes, 0 to 1.

    None where the engine has no delegates, and where no operator has a time.
    """
    whole = total_seconds(report)
    if not whole or (find_delegate(report) is None and not report.executed_on.endswith(_OWN_KERNELS)):
        return None
    return _sum(report, fallback_rows(report)) / whole


def by_place(report: ProfileReport, rows: Iterable[int] | None = None) -> tuple[Place, ...]:
    """Rows, or the given ones, with one entry for each operator and source line, most time first."""
    found: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    for at in range(len(report.ops)) if rows is None else rows:
        row = report.ops[at]
        found[row.operators[0] if row.operators else name_kind(row.op_type), row.source].append(at)
    whole = total_seconds(report)
    entries = [Place(name, source, _make_group(report, name, rows, whole)) for (name, source), rows in found.items()]
    return tuple(sorted(entries, key=lambda entry: -entry.group.total_seconds))


def critical_fallbacks(report: ProfileReport) -> tuple[Place, ...]:
    """Operators of the model that ran outside its delegate, by operator and source line, most time first."""
    left_out = () if report.delegation is None else report.delegation["fallbacks"]
    here = {(entry["op"], entry["source"]): str(entry["reason"]) for entry in left_out}
    anywhere: dict[str, set[str]] = defaultdict(set)
    for entry in left_out:
        anywhere[entry["op"]].add(str(entry["reason"]))

    def find_reason(place: Place) -> str | None:
        # A lowered operator may have lost its line; where all of its kind were left out for one reason, that is it.
        reasons = anywhere[place.operator]
        return here.get((place.operator, place.source)) or (next(iter(reasons)) if len(reasons) == 1 else None)

    return tuple(replace(place, reason=find_reason(place)) for place in by_place(report, fallback_rows(report)))


def by_module(report: ProfileReport) -> ModuleTree:
    """The tree of modules with totals and own time.

    A fused row counts for the module of its main operator. Rows that were not traced to a module, and those that
    belong to none such as overhead, are in `unmapped`.
    """
    own: dict[str, list[int]] = defaultdict(list)
    submodules: dict[str, dict[str, None]] = defaultdict(dict)  # a dict as a set that keeps its order
    unmapped = []
    for at, row in enumerate(report.ops):
        if row.module_path is None or row.map_confidence not in _MAPPED:
            unmapped.append(at)
            continue
        own[row.module_path].append(at)
        parts = row.module_path.split(".") if row.module_path else []
        for depth in range(len(parts)):
            submodules[".".join(parts[:depth])][".".join(parts[: depth + 1])] = None

    def build(path: str) -> ModuleNode:
        children = tuple(build(child) for child in submodules.get(path, ()))
        rows = tuple(own.get(path, ()))
        self_seconds = _sum(report, rows)
        return ModuleNode(
            path,
            path.rpartition(".")[2],
            self_seconds + sum(c.total_seconds for c in children),
            self_seconds,
            rows,
            children,
        )

    return ModuleTree(build(""), _make_group(report, "not traced to a module", unmapped, total_seconds(report)))


def walk_modules(node: ModuleNode) -> Iterable[tuple[int, ModuleNode]]:
    """A tree from the top, each module with its depth, submodules with the most time first."""
    stack = [(0, node)]
    while stack:
        depth, node = stack.pop()
        yield depth, node
        stack += [(depth + 1, child) for child in sorted(node.children, key=lambda child: child.total_seconds)]


def by_source(report: ProfileReport) -> SourceView:
    """The user's files with the time of each line; a fused row counts for the line of its main operator."""
    rows: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    unmapped = []
    for at, row in enumerate(report.ops):
        file, _, number = (row.source or "").rpartition(":")
        if not file or not number.isdigit() or row.map_confidence not in _MAPPED:
            unmapped.append(at)
        else:
            rows[file][int(number)].append(at)
    texts: dict[str, dict[int, str]] = defaultdict(dict)
    for text in report.sources:
        texts[text.file] |= dict(enumerate(text.lines, text.first_line))
    whole = total_seconds(report)
    files = []
    for file, lines in rows.items():
        shown = [
            SourceLine(
                number,
                texts[file].get(number),
                _make_group(report, f"{file}:{number}", lines[number], whole) if number in lines else None,
            )
            for number in sorted(texts[file].keys() | lines.keys())
        ]
        total = sum(line.group.total_seconds for line in shown if line.group is not None)
        files.append(SourceFile(file, total, total / whole if whole else None, tuple(shown)))
    files.sort(key=lambda file: -file.total_seconds)
    return SourceView(tuple(files), _make_group(report, "not traced to a line", unmapped, whole))


def weights_by_module(report: ProfileReport) -> tuple[WeightGroup, ...]:
    """Modules that own weights, most bytes first."""
    found = defaultdict(list)
    for weight in report.memory.weights:
        found[weight.module_path].append(weight)
    whole = sum(weight.bytes for weight in report.memory.weights) or 1
    groups = [
        WeightGroup(
            path, sum(w.bytes for w in weights), sum(w.bytes for w in weights) / whole,
            tuple(sorted({w.dtype for w in weights})), len(weights),
        )
        for path, weights in found.items()
    ]  # fmt: skip
    return tuple(sorted(groups, key=lambda group: -group.bytes))


def live_bytes(report: ProfileReport) -> tuple[int, ...]:
    """Bytes of the planned arena in use while each operator runs, `[len(ops)]`; empty where there is no plan."""
    spans = report.memory.arena
    if not spans:
        return ()
    change = [0] * (max(max(span.last_op for span in spans) + 1, len(report.ops)) + 1)
    for span in spans:
        change[span.first_op] += span.bytes
        change[span.last_op + 1] -= span.bytes
    live, levels = 0, []
    for delta in change[:-1]:
        live += delta
        levels.append(live)
    return tuple(levels)


def _group_by(report: ProfileReport, key: Callable[[OperatorRow], str]) -> tuple[Group, ...]:
    return _group_indexed(report, lambda _at, row: key(row))


def _group_indexed(report: ProfileReport, key: Callable[[int, OperatorRow], str]) -> tuple[Group, ...]:
    found: dict[str, list[int]] = defaultdict(list)
    for at, row in enumerate(report.ops):
        found[key(at, row)].append(at)
    whole = total_seconds(report)
    groups = [_make_group(report, name, rows, whole) for name, rows in found.items()]
    return tuple(sorted(groups, key=lambda group: -group.total_seconds))


def _make_group(report: ProfileReport, name: str, rows: Sequence[int], whole: float) -> Group:
    total = _sum(report, rows)
    untimed = sum(report.ops[at].median_seconds is None for at in rows)
    return Group(name, tuple(rows), total, total / whole if whole else None, untimed)


def _sum(report: ProfileReport, rows: Iterable[int]) -> float:
    return sum(report.ops[at].median_seconds or 0.0 for at in rows)
