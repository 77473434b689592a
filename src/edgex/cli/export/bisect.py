"""`edgex bisect`: which operators give other numbers by themselves, and which only pass an error on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgex.cli.failure import print_json
from edgex.cli.options.command import make_command, option
from edgex.cli.options.language import language_options, model_method_option
from edgex.cli.options.shared import (
    RENAMED,
    Finite,
    calibration_option,
    common_options,
    dynamic_option,
    group_size_option,
    input_shape_option,
    inputs_option,
    model_argument,
    precision_option,
    rewrite_option,
    target_options_option,
    targets_option,
)
from edgex.cli.supervisor import supervise

if TYPE_CHECKING:
    from edgex.export.bisect.of_model import Question
    from edgex.export.settings import ExportSettings


@make_command("bisect", renamed=RENAMED)
@model_argument
@targets_option("The target, one; an artifact has its own.")
@inputs_option
@option(
    "--repro",
    type=click.Path(path_type=Path),
    metavar="DIR",
    group="Input and output",
    help="Write the first operator at fault as a model file and an artifact that fail by themselves.",
)
@option(
    "--time-limit",
    type=Finite(min=0, min_open=True),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    group="General",
    help="Begin no further part after this time, and tell what is known by then.",
)
@precision_option
@option(
    "--quantize",
    default="none",
    show_default=True,
    metavar="RECIPE",
    group="Precision and quantization",
    help="Quantize by a recipe, as export does.",
)
@group_size_option
@calibration_option
@language_options()
@model_method_option
@input_shape_option
@dynamic_option
@option(
    "--min-sqnr",
    type=Finite(min=0),
    metavar="DB",
    group="Proof and limits",
    help="What every operator's outputs are held to; default: what export holds the target's to.",
)
@target_options_option
@rewrite_option("Apply the rewrites that export applies.")
@common_options(force=True)
def command(
    model: str,
    targets: tuple[str, ...],
    inputs: tuple[str, ...],
    repro: Path | None,
    time_limit: float,
    precision: str,
    quantize: str,
    group_size: int | None,
    calibration: str | None,
    llm: bool,
    context: int | None,
    chunk: int | None,
    source: int | None,
    head: str | None,
    embedding: str | None,
    kv: str | None,
    method: str | None,
    shapes: tuple[str, ...],
    dynamic: tuple[str, ...],
    min_sqnr: float | None,
    options: tuple[str, ...],
    rewrite: bool,
    timeout: float | None,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Find the operators of MODEL whose own error is large on a target, apart from those that only pass it on.

    MODEL is what `export` takes, or an artifact, whose model file is looked for here and beside it. Every part of the
    model is lowered as the whole, fed with PyTorch's values, and compared: on the inputs given with -i, else on the
    cases of the proof. Exit code 0 says that there is an answer, not that nothing is wrong.
    """

    def body() -> int:
        from edgex.cli.flags import parse_dynamic, parse_key_values, parse_shapes, split_list
        from edgex.cli.progress import StageProgress
        from edgex.errors import EdgexError
        from edgex.export.language_model.request import read_request
        from edgex.export.next_commands import name_model
        from edgex.export.settings import ExportSettings, Limits

        settings = ExportSettings(
            targets=split_list("-t", targets),
            precision=precision,
            quantize=None if quantize == "none" else quantize,
            group_size=group_size,
            calibration=calibration,
            tolerance=None if min_sqnr is None else Limits(min_sqnr),
            options=parse_key_values(options),
            rewrite=rewrite,
            dynamic=parse_dynamic(dynamic),
            language=read_request(llm, context, chunk, source, head, embedding, kv),
        )
        question = _read_question(model, settings, inputs, parse_shapes(shapes), repro, time_limit, force)
        question = replace(question, method=method)
        with StageProgress(quiet=quiet) as progress:
            from edgex.export.bisect.of_model import answer_question

            try:
                answer, notices = answer_question(question, progress)
            except EdgexError as error:
                name_model(error, model, question.settings.language)
                raise
        for notice in () if quiet else notices:
            click.echo(f"note: {notice}", err=True)
        document = answer.to_json()
        print_json(document) if as_json else print_bisection(document)
        return 0

    supervise(body, timeout_seconds=timeout, as_json=as_json, verbose=verbose, model=model)


def _read_question(
    model: str,
    settings: ExportSettings,
    inputs: Sequence[str],
    shapes: Mapping[str, tuple[int, ...]],
    repro: Path | None,
    limit_seconds: float,
    force: bool,
) -> Question:
    """Check all that was given before anything slow."""
    from edgex.cli.run.inputs import read_inputs
    from edgex.errors import UsageError
    from edgex.export.bisect.of_model import Question, model_of, settings_of
    from edgex.export.bisect.repro.place import check_folder
    from edgex.export.source.naming import parse_model_name
    from edgex.runtime.artifact.artifact import open_artifact

    artifact = None
    if _is_artifact(model):
        artifact = open_artifact(model, "size")
        given = settings
        settings = settings_of(artifact)
        if given.language is not None:
            raise UsageError(
                "--llm does not go with an artifact, which says itself what it is",
                fix=f"edgex bisect {artifact.path}",
            )
        if given.targets and given.targets != settings.targets:
            raise UsageError(
                f"{artifact.path.name} is for {settings.targets[0]}, not {', '.join(given.targets)}",
                fix="leave --target out, or name the model file",
            )
        settings = replace(settings, calibration=given.calibration, tolerance=given.tolerance, dynamic=given.dynamic)
        model = model_of(artifact)
    if len(settings.targets) != 1:
        raise UsageError(
            "bisect looks at one target" if settings.targets else "no target given",
            fix=f"edgex bisect {model} -t xnnpack; `edgex targets` lists them",
        )
    parse_model_name(model)
    if settings.language is not None and shapes:
        raise UsageError("--input-shape does not go with --llm", fix="say the sizes by --context and --chunk")
    for text in inputs:
        if not Path(text.rpartition("=")[2]).is_file():
            raise UsageError(f"no such file: {text.rpartition('=')[2]}", where=f"-i {text}")
    if repro is not None:
        check_folder(repro, force=force)

    def find() -> Any:
        from edgex.export.source.source import find_model

        return find_model(model, input_shapes=shapes, language=settings.language is not None, several=True)

    reader = (lambda opened: read_inputs(inputs, opened)) if inputs else None
    return Question(find, settings, reader, artifact, repro, limit_seconds)


def _is_artifact(model: str) -> bool:
    path = Path(model)
    return path.suffix == ".edgex" or (path.is_dir() and (path / "manifest.json").is_file())


def print_bisection(document: Mapping[str, Any]) -> None:
    """The answer for people, the method that is wrong first."""
    _print_answer(document)
    for other in document.get("others", ()):
        click.echo()
        _print_answer(other)


def _print_answer(document: Mapping[str, Any]) -> None:
    """About one method."""
    from edgex.cli.layout import echo_labelled, list_some
    from edgex.cli.render import bold

    born = document["born"]
    count = len(born)
    found = "no operator is wrong by itself" if not count else f"{count} place{'' if count == 1 else 's'} at fault"
    whose = f"{document['method']}: " if "method" in document else ""
    click.echo(
        f"{bold(document['target'])}  {whose}{found}{'' if document['complete'] else ', so far: the time was up'}"
    )
    wrong = [case for case in document["cases"] if case["reason"]] if count else document["cases"]
    shown = [f"{case['name']}{_decibels(case['error_db'])}" for case in wrong]
    if shown:
        echo_labelled("cases", list_some(shown, 4))
    for fault in born:
        click.echo(f"\n{bold('born here')}  {fault['op']}  {_form(fault)}")
        for label, text in (
            ("where", f"{fault['source'] or 'no source line'} in {fault['module'] or 'the model'}"),
            ("error", fault["reason"]),
            ("reads", ", ".join(fault["inputs"])),
            ("engine", fault["engine"]),
            ("together", ", ".join(f"{one['op']} ({one['source'] or 'no line'})" for one in fault["together"])),
            ("runs", "repeated runs on the same inputs differ" if fault["runs_differ"] else ""),
        ):
            if text:
                echo_labelled(label, text)
        for way in fault["workarounds"]:
            echo_labelled("workaround", f"{way['command']}  (tried on it alone: right{_decibels(way['error_db'])})")
    for growth in document["amplified"]:
        click.echo(f"\namplified  {growth['op']}  {_form(growth)}")
        echo_labelled("where", f"{growth['source'] or 'no source line'} in {growth['module'] or 'the model'}")
        echo_labelled("error", f"{growth['input_db']:.1f} dB in, {growth['error_db']:.1f} dB out")
    for growth in document["quantizing"]:
        click.echo(f"\nquantizing loses  {growth['op']}  {growth['error_db']:.1f} dB against float")
        echo_labelled("where", f"{growth['source'] or 'no source line'} in {growth['module'] or 'the model'}")
    for label, key in (("random", "random"), ("NaN, Inf", "nan_inf")):
        if document[key] is not None:
            place = document[key]
            echo_labelled(label, f"{place['op']} at {place['source'] or 'no line'}, in eager itself")
    for sentence in document["ruled_out"]:
        echo_labelled("ruled out", sentence)
    if document["repro"]:
        echo_labelled("repro", document["repro"])
    if document["judged"]:
        echo_labelled("judged", f"{document['judged']} parts in {document['seconds']:.1f} s")


def _decibels(value: float | None) -> str:
    return "" if value is None else f", {value:.1f} dB"


def _form(place: Mapping[str, Any]) -> str:
    return "" if place["dtype"] is None else f"{place['dtype']}{place['shape']}"
