"""`edgex why`: what each target takes of a model and what it leaves, with reason, line and workaround."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgex.cli.failure import print_json
from edgex.cli.options.command import make_command, option
from edgex.cli.options.language import language_options, model_method_option
from edgex.cli.options.shared import (
    RENAMED,
    common_options,
    dynamic_option,
    input_shape_option,
    model_argument,
    precision_option,
    rewrite_option,
    target_options_option,
    targets_option,
)
from edgex.cli.supervisor import supervise

if TYPE_CHECKING:
    from edgex.export.why.question import Question


@make_command("why", renamed=RENAMED)
@model_argument
@targets_option("Whom to ask, several by comma or repeated; default: all that can be asked here.")
@option(
    "--profile",
    "report",
    type=click.Path(path_type=Path),
    metavar="FILE",
    group="Input and output",
    help="The saved profile (.json) of an artifact: shows what each operator left out cost.",
)
@precision_option
@option(
    "--quantize",
    default="none",
    metavar="RECIPE",
    group="Precision and quantization",
    help="Not here: `edgex export --quantize RECIPE --dry-run` plans with a recipe.",
)
@language_options(quantized=False)
@model_method_option
@input_shape_option
@dynamic_option
@target_options_option
@rewrite_option("Count with the rewrites that export applies.")
@common_options()
def command(
    model: str,
    targets: tuple[str, ...],
    report: Path | None,
    precision: str,
    quantize: str,
    llm: bool,
    context: int | None,
    chunk: int | None,
    source: int | None,
    kv: str | None,
    method: str | None,
    shapes: tuple[str, ...],
    dynamic: tuple[str, ...],
    options: tuple[str, ...],
    rewrite: bool,
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
            given: dict[str, Any] = {
                "--target": targets,
                "--input-shape": shapes,
                "--dynamic": dynamic,
                "--option": options,
            }
            given |= {"--llm": llm, "--method": method}
            document, code = _ask_artifact(model, report, [flag for flag, value in given.items() if value]), 0
        else:
            from edgex.cli.flags import parse_dynamic, parse_key_values, parse_shapes, split_list
            from edgex.export.language_model.request import read_request
            from edgex.export.why.question import Question, check_question, targets_to_ask

            if report is not None:
                raise UsageError("--profile goes with an artifact", fix=f"edgex export {model} …, then ask about that")
            language = read_request(llm, context, chunk, source, kv=kv)
            bounds, chosen, sizes = parse_dynamic(dynamic), parse_key_values(options), parse_shapes(shapes)
            named = split_list("-t", targets) or ("all",)
            asked = targets_to_ask(precision, language=llm) if "all" in named else named
            question = Question(asked, precision, rewrite, bounds, chosen, sizes, language, method)
            check_question(model, question)
            document, code = _ask_model(model, question, quiet=quiet)
        for notice in () if quiet else document["notices"]:
            click.echo(f"note: {notice}", err=True)
        print_json(document) if as_json else print_why(document)
        return code

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose, model=model)


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
