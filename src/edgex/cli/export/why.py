"""`edgex why`: what each target takes of a model and what it leaves, with reason, line and workaround."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgex.cli.failure import print_json
from edgex.cli.supervisor import supervise

if TYPE_CHECKING:
    from edgex.export.why.question import Question


@click.command("why")
@click.argument("model")
@click.option("-t", "--target", "targets", multiple=True, help="One or several, by comma or repeated.")
@click.option("--profile", "report", type=click.Path(path_type=Path), help="Of an artifact: its saved profile (.json).")
@click.option("--precision", default="fp32", show_default=True, help="fp32, fp16 or bf16.")
@click.option("--quantize", default="none", help="Not here: `export --dry-run` plans with a recipe.")
@click.option("--input-shape", "shapes", multiple=True, help="x=1x3x224x224: example inputs of this size.")
@click.option("--dynamic", multiple=True, help="x:0=1..8: this dimension varies between these bounds.")
@click.option(
    "--option", "options", multiple=True, help="key=value for the target, target.key=value for one of several."
)
@click.option("--fix/--no-fix", default=True, show_default=True, help="Count with the rewrites that export applies.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds after which it is stopped.")
@click.option("--json", "as_json", is_flag=True, help="One document on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@click.option("-v", "--verbose", is_flag=True, help="Full tracebacks.")
def command(
    model: str,
    targets: tuple[str, ...],
    report: Path | None,
    precision: str,
    quantize: str,
    shapes: tuple[str, ...],
    dynamic: tuple[str, ...],
    options: tuple[str, ...],
    fix: bool,
    timeout: float | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Say what each target takes of MODEL and what it leaves, without lowering its weights.

    MODEL is what `export` takes. An artifact works too; with --profile every operator left out shows what it cost.
    """

    def body() -> int:
        from edgex.cli.export.why_text import print_why
        from edgex.errors import UsageError

        if quantize != "none":
            raise UsageError(
                f"why does not take --quantize {quantize}",
                why="it looks at a model without its weights, and ranges are measured on real ones",
                fix=f"edgex export {model} -t {','.join(targets) or 'xnnpack'} --quantize {quantize} --dry-run",
            )

        if _is_artifact(model):
            given = {"--target": targets, "--input-shape": shapes, "--dynamic": dynamic, "--option": options}
            document, code = _ask_artifact(model, report, [flag for flag, value in given.items() if value]), 0
        else:
            from edgex.cli.flags import parse_dynamic, parse_key_values, parse_shapes, split_list
            from edgex.export.why.question import Question, check_question

            if report is not None:
                raise UsageError("--profile goes with an artifact", fix=f"edgex export {model} …, then ask about that")
            bounds, chosen, sizes = parse_dynamic(dynamic), parse_key_values(options), parse_shapes(shapes)
            question = Question(split_list(targets), precision, fix, bounds, chosen, sizes)
            check_question(model, question)
            document, code = _ask_model(model, question, quiet=quiet)
        for notice in document["notices"]:
            click.echo(f"note: {notice}", err=True)
        print_json(document) if as_json else print_why(document)
        return code

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose)


def _is_artifact(model: str) -> bool:
    path = Path(model)
    return path.suffix == ".edgex" or (path.is_dir() and (path / "manifest.json").is_file())


def _ask_artifact(path: str, report: Path | None, given: list[str]) -> dict[str, Any]:
    from edgex.errors import UsageError
    from edgex.export.why.of_artifact import answer_artifact

    if given:
        raise UsageError(f"{', '.join(given)} does not go with an artifact, which was made for one target already")
    return answer_artifact(path, report).to_json()


def _ask_model(model: str, question: Question, *, quiet: bool) -> tuple[dict[str, Any], int]:
    from edgex.cli.progress import StageProgress
    from edgex.export.why.analysis import ask

    # The first attempt forks.
    with StageProgress(quiet=quiet, live=False) as progress:
        return ask(model, question, progress)
