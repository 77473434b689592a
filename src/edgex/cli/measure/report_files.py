"""Where reports go: files whose form their suffix says, checked before any slow step, and the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from edgex.cli.files import suggest_file, write_text
from edgex.cli.options.command import option
from edgex.errors import UsageError

if TYPE_CHECKING:
    from edgex.runtime.measure.profile.report import ProfileReport
    from edgex.runtime.report.listings import By

outputs_option = option(
    "-o",
    "--output",
    "outputs",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="PATH",
    group="Input and output",
    help="Write .html, .md, .trace.json (Perfetto) or .json; repeatable.",
)
by_option = option(
    "--by",
    type=click.Choice(["operator", "module", "source", "delegate"]),
    group="Measurement",
    help="Group the operators by this; default: where the time goes.",
)
top_option = option(
    "--top",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    group="Measurement",
    help="Rows of a list.",
)


def check_outputs(paths: Sequence[Path], force: bool, reports: int = 1) -> None:
    """Refuse files that cannot or must not be written, before any slow step.

    Args:
        paths: What was asked for.
        force: Existing files may be replaced.
        reports: How many reports each will hold; only .html takes several.

    Raises:
        UsageError: A form is unknown or takes one report only, a file exists already, or its folder does not.
    """
    for number, path in enumerate(paths):
        form = _form_of(path)
        if form is None:
            known = f"{', '.join(_FORMS[:-1])} or {_FORMS[-1]}"
            raise UsageError(f"-o {path}: reports are written as {known}", fix=suggest_file(path, ".html", "report"))
        if reports > 1 and form != ".html":
            raise UsageError(
                f"-o {path}: {form} takes one report, not {reports}", fix=suggest_file(path, ".html", "report")
            )
        if path in paths[:number]:
            raise UsageError(f"-o {path} is given twice")
        if path.is_dir():
            raise UsageError(f"{path} is a folder", where=f"-o {path}")
        if path.exists() and not force:
            raise UsageError(f"{path} exists", fix="--force replaces it")
        if not path.parent.is_dir():
            raise UsageError(f"no such folder: {path.parent}", where=f"-o {path}")


def write_outputs(
    paths: Sequence[Path], reports: Sequence[ProfileReport], labels: Sequence[str] | None = None, *, quiet: bool = False
) -> None:
    """Write every file; each whole or not at all, the .json first, so that what was measured is safe.

    Raises:
        RunError: The disk refuses.
    """
    for path in sorted(paths, key=lambda path: _form_of(path) != ".json"):
        write_text(path, _render(path, reports, labels), quiet=quiet)


def show_report(report: ProfileReport, by: str | None, top: int) -> None:
    """Print a report in the terminal, with the view that was asked for."""
    from rich.console import Console

    from edgex.runtime.report.terminal import print_report

    print_report(report, Console(), cast("By | None", by), top)


def _as_json(report: ProfileReport) -> str:
    return report.dumps()


def _as_markdown(report: ProfileReport) -> str:
    from edgex.runtime.report.markdown import render_markdown

    return render_markdown(report)


def _as_trace(report: ProfileReport) -> str:
    from edgex.runtime.report.chrome_trace import render_trace

    return render_trace(report)


_OF_ONE: dict[str, Callable[[ProfileReport], str]] = {
    ".trace.json": _as_trace,
    ".json": _as_json,
    ".md": _as_markdown,
}
_FORMS = (".html", ".json", ".md", ".trace.json")


def _form_of(path: Path) -> str | None:
    """The longest known end of the name; None where it has none."""
    return max((form for form in _FORMS if path.name.endswith(form)), key=len, default=None)


def _render(path: Path, reports: Sequence[ProfileReport], labels: Sequence[str] | None) -> str:
    form = _form_of(path)
    if form in _OF_ONE:
        return _OF_ONE[form](reports[0])
    from edgex.runtime.report.pages.profile import render_html

    return render_html(reports, labels=labels)
