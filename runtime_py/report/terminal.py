"""A profile for the terminal: readable without colour, in 80 columns and more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgex.runtime.measure.profile.report import ProfileReport
from edgex.runtime.report.figures import (
    count,
    describe_host,
    describe_load,
    describe_mean,
    describe_memory,
    describe_percentiles,
    describe_sampling,
    describe_subject,
    draw_distribution,
    format_interval,
    format_rate,
    format_seconds,
    format_share,
)
from edgex.runtime.report.listings import (
    By,
    Listing,
    describe_trace,
    list_fallbacks,
    list_places,
    list_view,
    warn_of_fallbacks,
)
from edgex.runtime.report.tables import print_listing
from edgex.runtime.report.views import by_category, name_kind

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    Row = tuple[str, Text]

_INDENT = 2
_LABEL_WIDTH = 12
_CODE_WIDTH = 23
_MAX_BARS, _BAR_ENDS = 48, 30
# Longer lines are hard to read, however wide the terminal.
_MAX_WIDTH = 110
# Rows of each table that stand under the summary.
_FEW = 8

# Rich breaks lines at every white space, the no-break space included. This stands for a space until lines are broken.
_GLUE = "\ue000"
_UNGLUE = str.maketrans({_GLUE: " "})
_ASCII = str.maketrans({"µ": "u", "·": "-", "…": "~", "×": "x", _GLUE: " "})


def print_report(report: ProfileReport, console: Console, by: By | None = None, limit: int | None = 20) -> None:
    """Print a profile.

    Args:
        report: What to print.
        console: Where; its width, its colours and its character set are respected.
        by: The view of the operators; None prints a few lines on where the time goes.
        limit: Rows of a table; None prints all.
    """
    from rich.text import Text

    console.print()
    width = min(console.width, _MAX_WIDTH) - _INDENT - _LABEL_WIDTH
    bars = 0 if console.options.ascii_only else min(_MAX_BARS, width - _BAR_ENDS)
    for label, text in _figure_rows(report, bars):
        _print_row(console, Text(label, style="dim"), text, _LABEL_WIDTH)
    if (loud := warn_of_fallbacks(report)) is not None:
        console.print()
        _print_row(console, Text("left out", style="bold red"), Text(loud, style="bold"), _LABEL_WIDTH)
    if report.warnings:
        console.print()
        _print_row(console, Text("warnings", style="bold yellow"), Text(), _LABEL_WIDTH)
        for warning in report.warnings:
            _print_row(console, Text(warning.code, style="yellow"), Text(warning.text), _CODE_WIDTH)
    for listing in _choose_listings(report, by, limit):
        console.print()
        print_listing(listing, console)
    if report.ops and by is None:
        console.print()
        hint = "--by operator, module, source or delegate shows more; -o report.html shows all"
        _print_row(console, Text(), Text(hint, style="dim"), 0)
    console.print()


def _choose_listings(report: ProfileReport, by: By | None, limit: int | None) -> list[Listing]:
    if not report.ops:
        return []
    if by is not None:
        return list_view(report, by, limit)
    return [*list_fallbacks(report, _FEW), list_places(report, _FEW)]


def _print_row(console: Console, label: Text, text: Text, label_width: int) -> None:
    """A label, and beside it text that wraps without coming under the label; no blanks at the ends of lines."""
    from rich.text import Text

    width = min(console.width, _MAX_WIDTH) - _INDENT - label_width
    for number, line in enumerate(text.wrap(console, max(20, width))):
        line.rstrip()
        head = label if number == 0 else Text()
        gap = " " * (label_width - len(head)) if line or number else ""
        whole = Text.assemble(" " * _INDENT, head, gap, line)
        whole.rstrip()
        whole.plain = whole.plain.translate(_ASCII if console.options.ascii_only else _UNGLUE)
        console.print(whole, soft_wrap=True, highlight=False)


def _figure_rows(report: ProfileReport, bar_count: int) -> list[Row]:
    from rich.text import Text

    blank = ("", Text())
    interrupted = [("interrupted", Text("what is missing was not measured", style="yellow"))]
    return [
        *(interrupted if not report.complete else []),
        ("artifact", Text.assemble((report.artifact.name, "bold"), "  ", _dotted(describe_subject(report)))),
        ("", Text(report.executed_on)),
        blank,
        *_latency_rows(report, bar_count),
        blank,
        *_start_rows(report),
        blank,
        *_time_rows(report),
        ("machine", _dotted(describe_host(report.host))),
    ]


def _time_rows(report: ProfileReport) -> list[Row]:
    from rich.text import Text

    if not report.ops:
        return []
    parts = [(name_kind(group.name), format_share(group.share)) for group in by_category(report)]
    traced = [("", Text(line, style="dim")) for line in describe_trace(report)]
    return [("time in", _figures(parts)), *traced, ("", Text())]


def _latency_rows(report: ProfileReport, bar_count: int) -> list[Row]:
    from rich.text import Text

    steady = report.steady
    headline = Text(format_seconds(steady.median, digits=4), style="bold cyan")
    if steady.median_ci95 is not None:
        interval = format_interval(*steady.median_ci95, like=steady.median)
        headline = Text.assemble(headline, ("   95 % interval ", "dim"), interval)
    rows = [("median", headline), ("", _figures(describe_percentiles(report)))]
    drawn = draw_distribution(report, bar_count) if bar_count > 0 else None
    if drawn is not None:
        ends = [format_seconds(end, like=steady.median) for end in (drawn.low, drawn.high)]
        beyond = f", {100 * drawn.beyond_share:.0f} % slower" if drawn.beyond_share >= 0.005 else ""
        bars = Text.assemble((f"{ends[0]} ", "dim"), (drawn.bars, "cyan"), (f" {ends[1]}{beyond}", "dim"))
        rows.append(("", bars))
    rows += [("", Text(line, style="dim")) for line in describe_sampling(report)]
    throughput = Text.assemble(format_rate(report.throughput), (f" runs per second, {describe_mean(report)}", "dim"))
    return [*rows, ("throughput", throughput)]


def _start_rows(report: ProfileReport) -> list[Row]:
    from rich.text import Text

    first = report.load_seconds.first
    times = f"   {first / report.steady.median:.1f} × the median"
    return [
        ("load", _figures(describe_load(report))),
        ("first run", Text.assemble(format_seconds(first), (times, "dim"))),
        ("memory", _figures(describe_memory(report))),
        ("", Text(f"medians of {count(len(report.fresh), 'fresh process')}", style="dim")),
    ]


def _figures(pairs: list[tuple[str, str]]) -> Text:
    """`min 213 µs   p90 240 µs`; a name is never parted from its value."""
    from rich.text import Text

    parts = [Text.assemble((f"{name}{_GLUE}", "dim"), value.replace(" ", _GLUE)) for name, value in pairs]
    return Text("   ").join(parts)


def _dotted(parts: list[str]) -> Text:
    from rich.text import Text

    return Text(f"{_GLUE}· ".join(part.replace(" ", _GLUE) for part in parts))
