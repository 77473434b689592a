"""`edgex profile --llm`: a language model in llama-bench's terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgex.cli.failure import print_document
from edgex.cli.files import check_output, write_text
from edgex.cli.layout import echo_labelled, print_table
from edgex.cli.options.command import given_flags, option
from edgex.cli.progress import StageProgress
from edgex.errors import UsageError

if TYPE_CHECKING:
    from edgex.runtime.artifact.artifact import CheckLevel

_Command = TypeVar("_Command", bound=Callable[..., Any])

# Flags of `edgex profile` that mean nothing here.
_OTHERS = {
    **{"--input": "inputs", "--by": "by", "--warmup": "warmup", "--sweep": "sweep", "--device": "device"},
    **{"--allow-fallback": "allow_fallback", "--method": "method"},
}
_OWN = {"-p": "prompt_sizes", "-n": "new_sizes", "-d": "depths"}


def llm_options(command: _Command) -> _Command:
    """Add `--llm` and what goes with it to a command."""
    for add in (
        _sizes("-d", "--n-depth", "depths", "With --llm: tokens that the cache holds before; default: 0."),
        _sizes("-n", "--n-gen", "new_sizes", "With --llm: tokens to generate; default: 128."),
        _sizes("-p", "--n-prompt", "prompt_sizes", "With --llm: tokens of the prompt; default: 512."),
        option(
            "--llm",
            is_flag=True,
            group="Measurement",
            help="Measure a language model: prompts and generated text in tokens a second.",
        ),
    ):
        command = add(command)
    return command


def _sizes(flag: str, long: str, name: str, help: str) -> Callable[[_Command], _Command]:
    return option(flag, long, name, multiple=True, metavar="N,N", group="Measurement", help=help)


def check_llm_flags(llm: bool, outputs: Sequence[Path], force: bool) -> None:
    """Refuse flags that go without or against `--llm`.

    Raises:
        UsageError: There is one.
    """
    if not llm:
        if idle := given_flags(_OWN):
            raise UsageError(f"{idle[0]} is for language models", fix="add --llm")
        return
    if refused := given_flags(_OTHERS):
        raise UsageError(f"{refused[0]} does not go with --llm", fix=f"leave {refused[0]} out")
    for path in outputs:
        check_output(path, (".json", ".html"), force)


def run_llm_profile(
    artifact: str,
    sizes: tuple[Sequence[str], Sequence[str], Sequence[str]],
    outputs: Sequence[Path],
    threads: int | None,
    runs: int | None,
    check: CheckLevel,
    *,
    tuned: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    """Measure, and show, print or save the report.

    Args:
        artifact: Its path.
        sizes: Of `-p`, `-n` and `-d`.
        outputs: Files that receive the document.
        threads: Of a run.
        runs: How often each is measured.
        check: How the files are checked.
        tuned: Take the threads that a sweep found.
        as_json: Print the document.
        quiet: No progress.
    """
    from edgex.runtime.artifact.artifact import open_artifact
    from edgex.runtime.generation.limits import read_limits
    from edgex.runtime.measure.llm.collect import profile_llm
    from edgex.runtime.measure.llm.plan import plan_measurement
    from edgex.runtime.report.llm import list_facts, list_tests
    from edgex.runtime.report.pages.llm import render_llm

    prompts, new, depths = (
        _parse_sizes(flag, texts, least) for flag, texts, least in zip("pnd", sizes, (1, 1, 0), strict=True)
    )
    opened = open_artifact(artifact, check)
    plan = plan_measurement(read_limits(opened), prompts, new, depths or (0,), runs)
    with StageProgress(quiet=quiet) as progress:
        report = profile_llm(opened, plan, threads=threads, tuned=tuned, progress=progress)
    # The .json first, so that what was measured is safe.
    for path in sorted(outputs, key=lambda path: path.suffix != ".json"):
        write_text(path, report.dumps() if path.suffix == ".json" else render_llm(report), quiet=quiet)
    if as_json:
        print_document(report.dumps())
        return 0
    threads_shown = f", {report.threads} threads" if report.threads else ""
    click.echo(f"{report.artifact}  on {report.executed_on}{threads_shown}\n")
    print_table(list_tests(report))
    click.echo()
    for label, text in list_facts(report):
        echo_labelled(label, text, colour="yellow" if label == "warning" else None)
    return 0


def _parse_sizes(flag: str, texts: Sequence[str], least: int) -> tuple[int, ...] | None:
    """`512,1024`, or several times; None where nothing is given.

    Raises:
        UsageError: One is no whole number, or too small.
    """
    from edgex.cli.flags import split_list

    parts = split_list(f"-{flag}", texts)
    for part in parts:
        if not part.isdecimal() or int(part) < least:
            raise UsageError(f"-{flag} {part}: expected whole numbers from {least} on", fix=f"-{flag} 512,1024")
    return tuple(dict.fromkeys(int(part) for part in parts)) or None
