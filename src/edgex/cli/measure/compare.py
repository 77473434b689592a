"""`edgex compare`: artifacts, or saved profiles, compared with the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgex.cli.failure import print_document
from edgex.cli.files import check_output, write_text
from edgex.cli.options.command import given_flags, make_command, option
from edgex.cli.options.completion import ArtifactPath
from edgex.cli.options.shared import (
    Finite,
    check_option,
    common_options,
    inputs_option,
    output_option,
    threads_option,
)
from edgex.cli.run.place import device_flags, read_place
from edgex.cli.supervisor import supervise
from edgex.errors import UsageError, VerificationError

if TYPE_CHECKING:
    import numpy as np

    from edgex.runtime.artifact.artifact import Artifact, CheckLevel
    from edgex.runtime.measure.compare.gate import GateResult
    from edgex.runtime.measure.compare.result import Comparison

_FORM_NAMES = "artifacts: NAME.TARGET.edgex; saved profiles: report.json"


@make_command("compare")
@click.argument("baseline_and_candidates", nargs=-1, type=ArtifactPath(), metavar="BASELINE CANDIDATE...")
@inputs_option
@output_option("Write the comparison to this .html, .md or .json.")
@threads_option("Threads of each; default: the engines' own, one number for all.")
@option(
    "--fail-on",
    metavar="PERCENT",
    group="Proof and limits",
    help="Exit with code 4 if a candidate is surely slower by more than this: 3%.",
)
@option(
    "--allow-different",
    is_flag=True,
    group="Proof and limits",
    help="Compare different models or machines too, and say so.",
)
@option(
    "--max-seconds",
    type=Finite(min=0, min_open=True),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    group="Measurement",
    help="Go on for at most this long, starts and loads included, while an interval is too wide to decide. The "
    "smallest schedule, the traces and the golden inputs are run in any case.",
)
@option(
    "--processes",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    metavar="N",
    group="Measurement",
    help="Fresh processes of each artifact: what differs between them counts as noise.",
)
@check_option
@device_flags
@common_options(force=True)
def command(
    baseline_and_candidates: tuple[str, ...],
    inputs: tuple[str, ...],
    output: Path | None,
    threads: int | None,
    fail_on: str | None,
    allow_different: bool,
    max_seconds: float,
    processes: int,
    check: CheckLevel,
    device: str | None,
    timeout: float | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Compare artifacts, timed in turns, or saved profiles, with the first."""
    # On a device the turns are fixed.
    fixed = given_flags({"--max-seconds": "max_seconds", "--processes": "processes"})
    place = read_place(device, dict.fromkeys(fixed, True))
    if not given_flags({"--threads": "threads"}) and all(Path(path).is_file() for path in baseline_and_candidates):
        threads = None  # a project's default is for what runs; saved reports have run

    def body() -> int:
        from edgex.cli.failure import report_failure
        from edgex.cli.progress import StageProgress
        from edgex.runtime.measure.compare.collect import compare
        from edgex.runtime.measure.compare.gate import check_gate, parse_limit, refuse_other_hosts

        limit = None if fail_on is None else parse_limit(fail_on)
        if output is not None:
            check_output(output, tuple(_FORMS), force)
        values = _read_inputs(inputs, baseline_and_candidates, check, quiet=quiet)
        artifacts = [] if place.is_here else _open_artifacts(baseline_and_candidates)
        with StageProgress(quiet=quiet) as progress, place.opened(artifacts) as executor:
            comparison = compare(
                *baseline_and_candidates,
                inputs=values,
                threads=threads,
                allow_different=allow_different,
                max_seconds=max_seconds,
                processes=processes,
                check=check,
                executor=None if place.is_here else executor,
                progress=progress,
            )
        gate = None
        if limit is not None:
            refuse_other_hosts(comparison, allow_different)
            gate = check_gate(comparison, limit)
        if output is not None:
            write_text(output, _FORMS[output.suffix](comparison, gate), quiet=quiet)
        print_document(_as_json(comparison, gate)) if as_json else _print(comparison, gate)
        if gate is not None and gate.failed:
            report_failure(_gate_error(comparison, gate))
            return VerificationError.exit_code
        return 0

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose)


def _open_artifacts(subjects: Sequence[str]) -> list[Artifact]:
    """Those that are to run on a device, before it is reached; their files are checked when they run."""
    from edgex.runtime.artifact.artifact import open_artifact

    for path in subjects:
        if Path(path).is_file():
            raise UsageError("--device is for artifacts: a saved report was taken where it was taken", where=path)
    return [open_artifact(path, "size") for path in subjects]


def _read_inputs(
    texts: Sequence[str], subjects: Sequence[str], check: CheckLevel, *, quiet: bool
) -> dict[str, np.ndarray] | None:
    """`-i`, read for the baseline; None where none are given."""
    if not texts or not subjects:
        return None
    from edgex.cli.run.inputs import read_inputs
    from edgex.runtime.artifact.artifact import open_artifact

    if Path(subjects[0]).is_file():
        raise UsageError("-i is for artifacts: a saved report has its own inputs", fix=_FORM_NAMES)
    return read_inputs(texts, open_artifact(subjects[0], check), quiet=quiet)


def _gate_error(comparison: Comparison, gate: GateResult) -> VerificationError:
    from edgex.runtime.report.comparison import describe_gate

    said = [c.sentence for c in comparison.contrasts if c.candidate in gate.failed]
    return VerificationError("; ".join(describe_gate(gate)[: len(gate.failed)]), why="\n".join(said))


def _as_json(comparison: Comparison, gate: GateResult | None) -> str:
    return comparison.dumps(fail_on=None if gate is None else gate.to_json())


def _as_markdown(comparison: Comparison, gate: GateResult | None) -> str:
    from edgex.runtime.report.comparison import render_comparison

    return render_comparison(comparison, gate)


def _as_html(comparison: Comparison, gate: GateResult | None) -> str:
    from edgex.runtime.report.comparison import describe_findings
    from edgex.runtime.report.pages.profile import render_html

    subjects = comparison.subjects
    labels = [subject.label for subject in subjects]
    return render_html([subject.report for subject in subjects], describe_findings(comparison, gate), labels)


_FORMS: dict[str, Callable[[Comparison, GateResult | None], str]] = {
    ".html": _as_html,
    ".json": _as_json,
    ".md": _as_markdown,
}


def _print(comparison: Comparison, gate: GateResult | None) -> None:
    """The verdicts first, then the figures behind them, then what speaks against them."""
    from edgex.cli.layout import echo_labelled, print_table
    from edgex.cli.render import bold
    from edgex.runtime.report.comparison import (
        describe_gate,
        describe_method,
        describe_operators,
        tabulate_operators,
        tabulate_subjects,
    )

    for contrast in comparison.contrasts:
        click.echo(bold(contrast.sentence))
    if gate is not None:
        for line in describe_gate(gate):
            click.echo(line)
    for line in comparison.differences:
        echo_labelled("different models:", line, indent=0, width=18, colour="yellow")
    click.echo()
    table = tabulate_subjects(comparison)
    print_table([table.head, *table.rows])
    click.echo()
    click.echo(describe_method(comparison))
    for contrast in comparison.contrasts:
        operators = tabulate_operators(contrast)
        if operators is not None:
            click.echo()
            print_table([operators.head, *operators.rows])
    if (traced := describe_operators(comparison)) is not None:
        click.echo()
        echo_labelled("operators:", traced.removeprefix("operators: "), indent=0, width=11)
    for warning in comparison.warnings:
        echo_labelled("warning:", f"{warning.code}: {warning.text}", indent=0, width=9, colour="yellow")
