"""`edgex pick`: the best artifact of a model for this machine, by measurement."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgex.cli.failure import print_json
from edgex.cli.options.command import given_flags, make_command, option
from edgex.cli.options.shared import (
    Finite,
    Share,
    calibration_option,
    common_options,
    dynamic_option,
    input_shape_option,
    model_argument,
    output_option,
    target_options_option,
    targets_option,
)
from edgex.cli.run.place import device_flags, read_place
from edgex.cli.supervisor import leftovers_remover, supervise
from edgex.errors import UsageError
from edgex.runtime.support.arguments import MOST_THREADS

if TYPE_CHECKING:
    from edgex.cli.run.place import Place
    from edgex.export.pick.plan import PickSettings
    from edgex.export.source.source import ModelSource

_INTERRUPTED = 130


@make_command("pick")
@model_argument
@targets_option("What to pick from: several by comma or repeated; default: all that work here.", default=("all",))
@output_option("The folder for the best artifact, or its path, which ends in .edgex; default: here.")
@option(
    "--precision",
    "precisions",
    default="fp32",
    show_default=True,
    metavar="TYPE,TYPE",
    group="Precision and quantization",
    help="Types of the floating-point artifacts: fp32, fp16, bf16.",
)
@option(
    "--quantize",
    "recipes",
    default="none",
    show_default=True,
    metavar="RECIPE,RECIPE",
    group="Precision and quantization",
    help="Recipes to try, none for the floating-point artifacts among them: none,int8,8da4w.",
)
@calibration_option
@option(
    "--max-drop",
    type=Share(),
    metavar="X",
    group="Proof and limits",
    help="Budget: how much evaluate(run) may lose, 0.01 or 1%; without evaluate, the share of noise in the outputs.",
)
@option(
    "--min-sqnr",
    type=Finite(min=0),
    metavar="DB",
    group="Proof and limits",
    help="Budget: least SQNR against eager float32, in dB.",
)
@option(
    "--on",
    "data",
    metavar="SOURCE",
    group="Proof and limits",
    help="Held-out inputs that errors are measured on, data.npz or file.py:function, instead of evaluate(run).",
)
@option(
    "--objective",
    default="latency",
    show_default=True,
    metavar="NAME",
    group="Measurement",
    help="What the best is best in: latency, size, memory or energy.",
)
@option(
    "--threads",
    default="auto",
    show_default=True,
    metavar="N,N",
    group="Measurement",
    help="Numbers of threads to try; auto: the default, one, and powers of two up to all cores.",
)
@option(
    "--max-seconds",
    type=Finite(min=0, min_open=True),
    default=40.0,
    show_default=True,
    metavar="SECONDS",
    group="Measurement",
    help="Time those that are close for at most this long, beside starting processes.",
)
@input_shape_option
@dynamic_option
@target_options_option
@option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    group="Input and output",
    help="Write the result to this .html or .json too.",
)
@device_flags
@option("--dry-run", is_flag=True, group="General", help="Show what would be exported and timed, and stop.")
@common_options(force=True)
def command(
    model: str,
    targets: tuple[str, ...],
    output: Path | None,
    precisions: str,
    recipes: str,
    calibration: str | None,
    max_drop: float | None,
    min_sqnr: float | None,
    data: str | None,
    objective: str,
    threads: str,
    max_seconds: float,
    shapes: tuple[str, ...],
    dynamic: tuple[str, ...],
    options: tuple[str, ...],
    report: Path | None,
    device: str | None,
    timeout: float | None,
    dry_run: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Export MODEL in every combination of target, precision and recipe; keep the best for this machine or a device."""
    # On a device the turns are fixed.
    fixed = dict.fromkeys(given_flags({"--max-seconds": "max_seconds"}), True)

    def body() -> int:
        from edgex.cli.files import check_output
        from edgex.cli.flags import parse_dynamic, parse_key_values, parse_shapes, split_list
        from edgex.export.pick.plan import PickSettings
        from edgex.export.settings import ExportSettings

        place = read_place(device, fixed)
        if report is not None:
            check_output(report, (".html", ".json"), force)
        export = ExportSettings(
            targets=(),
            output=output,
            force=force,
            calibration=calibration,
            options=parse_key_values(options),
            dynamic=parse_dynamic(dynamic),
        )
        settings = PickSettings(
            export,
            split_list("-t", targets),
            split_list("--precision", [precisions]),
            split_list("--quantize", [recipes]),
            objective,  # type: ignore[arg-type]  # checked by plan_pick
            max_drop,
            min_sqnr,
            data,
            _parse_threads(threads),
            max_seconds,
        )
        return _pick(
            model, settings, place, parse_shapes(shapes), report, dry_run=dry_run, as_json=as_json, quiet=quiet
        )

    home = (output.parent if output.suffix == ".edgex" else output) if output else Path()
    supervise(
        body, timeout_seconds=timeout, as_json=as_json, verbose=verbose, model=model, clean_up=leftovers_remover(home)
    )


def _pick(
    model: str,
    settings: PickSettings,
    place: Place,
    shapes: dict[str, tuple[int, ...]],
    report: Path | None,
    *,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> int:
    from edgex.cli.export.pick_text import print_pick, print_plan, write_report
    from edgex.cli.progress import StageProgress
    from edgex.export.pick.api import run_pick
    from edgex.export.pick.plan import plan_pick
    from edgex.export.source.naming import parse_model_name

    name = parse_model_name(model).artifact_name
    if dry_run:
        with place.opened_elsewhere() as executor:
            print_plan(plan_pick(settings, name, executor), as_json=as_json)
        return 0

    def find() -> ModelSource:
        from edgex.export.source.source import find_model

        return find_model(model, input_shapes=shapes)

    with StageProgress(quiet=quiet) as progress, place.opened_elsewhere() as executor:
        found = run_pick(find, settings, name=name, executor=executor, progress=progress)
    document = found.to_json()
    if report is not None:
        write_report(report, document, quiet=quiet)
    for notice in () if quiet else found.notices:
        click.echo(f"note: {notice}", err=True)
    print_json(document) if as_json else print_pick(document)
    return _INTERRUPTED if found.interrupted else 0


def _parse_threads(text: str) -> tuple[int, ...]:
    """`auto` is empty.

    Raises:
        UsageError: It is neither `auto` nor numbers.
    """
    if text == "auto":
        return ()
    try:
        counts = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        counts = (0,)
    if not 1 <= min(counts) <= max(counts) <= MOST_THREADS:
        raise UsageError(f"--threads {text}: expected auto or numbers up to {MOST_THREADS}", fix="--threads 1,2")
    return counts
