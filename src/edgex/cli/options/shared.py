"""Options that several commands have, each declared once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.types import FloatParamType

from edgex.cli.options.command import option
from edgex.cli.options.completion import ArtifactPath, ModelName, TargetNames
from edgex.runtime.support.arguments import MOST_THREADS

artifact_argument = click.argument("artifact", type=ArtifactPath())
model_argument = click.argument("model", type=ModelName())

# `fix` is what an error tells to do next.
RENAMED = {"--fix": "--rewrite", "--no-fix": "--no-rewrite"}


# Where a run is on this machine, its cores bound it further; see `check_threads`.
THREADS = click.IntRange(min=1, max=MOST_THREADS)


class Finite(click.FloatRange):
    """A number in a range; NaN, which no range refuses, and infinity are none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class Share(FloatParamType):
    """A share of one, as a number or in percent: `0.9` or `90%`."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The share as a number."""
        percent = isinstance(value, str) and value.rstrip().endswith("%")
        number: float = super().convert(value.rstrip().removesuffix("%") if percent else value, param, ctx)
        return number / 100 if percent else number


input_shape_option = option(
    "--input-shape",
    "shapes",
    multiple=True,
    metavar="NAME=SIZES",
    group="Model",
    help="Make example inputs of this size: x=1x3x224x224; repeatable.",
)
dynamic_option = option(
    "--dynamic",
    multiple=True,
    metavar="NAME:AXIS=MIN..MAX",
    group="Model",
    help="Let a dimension vary between bounds: x:0=1..8; by comma or repeated. Inputs share one by its name: "
    "ids:1=L=8..128,mask:1=L.",
)
sizes_option = option(
    "--sizes",
    "fixed",
    multiple=True,
    metavar="NAME:AXIS=SIZE,SIZE…",
    group="Model",
    help="Make a method for each of some fixed sizes, which share the weights: x:0=1,4; repeatable. Inputs share one "
    "by its name: --sizes ids:1=L=16,64 --sizes mask:1=L.",
)
precision_option = option(
    "--precision",
    default="fp32",
    show_default=True,
    metavar="TYPE",
    group="Precision and quantization",
    help="Type of the floating-point numbers: fp32, fp16 or bf16.",
)
target_options_option = option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    group="Target",
    help="An option of the target; target.key=value for one of several targets; repeatable.",
)
group_size_option = option(
    "--group-size",
    type=int,
    metavar="N",
    group="Precision and quantization",
    help="How many weights share a scale, for recipes with 4-bit weights.",
)
calibration_option = option(
    "--calibration",
    metavar="SOURCE",
    group="Precision and quantization",
    help="data.npz, file.py:function or random:N, instead of calibration_data() beside the model.",
)
check_option = option(
    "--check",
    type=click.Choice(["hash", "size"]),
    default="hash",
    show_default=True,
    group="Input and output",
    help="How the artifact's files are checked before: by their SHA-256, or only by their size.",
)
method_option = option(
    "--method",
    metavar="NAME",
    group="Input and output",
    help="Which of the artifact's methods is meant; default: the first, for verify all. `edgex inspect` lists them.",
)
inputs_option = option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="FILE|NAME=FILE",
    group="Input and output",
    help="in.npz, name=file.npy, or a picture: name=photo.jpg (.png, .bmp, .webp); "
    "default: the example inputs in the artifact; repeatable.",
)
allow_fallback_option = option(
    "--allow-fallback",
    is_flag=True,
    group="Target",
    help="Let the CPU run what an artifact's GPU provider does not take.",
)
no_tuned_option = option(
    "--no-tuned",
    is_flag=True,
    group="Measurement",
    help="Use the engine's default threads and settings, not the quickest that a pick or a sweep found.",
)
timeout_option = option(
    "--timeout",
    type=Finite(min=0, min_open=True),
    metavar="SECONDS",
    group="General",
    help="Stop after this many seconds, with exit code 124.",
)
force_option = option("--force", is_flag=True, group="General", help="Replace files that exist.")
json_option = option("--json", "as_json", is_flag=True, group="General", help="Print one JSON document on stdout.")


def _quiet(**attributes: Any) -> Callable[[Any], Any]:
    help = "Print the result and errors only: no progress, no notes."
    return option("-q", "--quiet", is_flag=True, group="General", help=help, **attributes)


quiet_option = _quiet()

# For commands that have neither progress nor notes: a script may give every command `-q`.
accepted_quiet_option = _quiet(expose_value=False)


@contextmanager
def _debug_log() -> Iterator[None]:
    import logging

    log, handler = logging.getLogger("edgex"), logging.StreamHandler()
    level = log.level
    log.setLevel(logging.DEBUG)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def _show_details(context: click.Context, _parameter: click.Parameter, value: bool) -> bool:
    """`-v` shows what is logged at debug level, what dependencies say of themselves among it."""
    if value:
        context.with_resource(_debug_log())
    return value


verbose_option = option(
    "-v",
    "--verbose",
    is_flag=True,
    callback=_show_details,
    group="General",
    help="Print tracebacks, defaults from a configuration file, and what dependencies log.",
)


def targets_option(help: str, **attributes: Any) -> Callable[[Any], Any]:
    """`-t`.

    Args:
        help: What they are asked for.
        attributes: As `option` takes them.
    """
    names = ("-t", "--target", "targets")
    return option(*names, type=TargetNames(), multiple=True, metavar="TARGET", group="Target", help=help, **attributes)


def rewrite_option(help: str) -> Callable[[Any], Any]:
    """`--rewrite/--no-rewrite`.

    Args:
        help: What is done with the rewrites.
    """
    return option("--rewrite/--no-rewrite", default=True, show_default=True, group="Target", help=help)


def threads_option(help: str) -> Callable[[Any], Any]:
    """`--threads`.

    Args:
        help: What they are used for.
    """
    return option("--threads", type=THREADS, metavar="N", group="Measurement", help=help)


def output_option(help: str) -> Callable[[Any], Any]:
    """`-o`, one path.

    Args:
        help: What is written there.
    """
    return option(
        "-o", "--output", type=click.Path(path_type=Path), metavar="PATH", group="Input and output", help=help
    )


def common_options(*, force: bool = False) -> Callable[[Any], Any]:
    """`--timeout`, `--json`, `-q` and `-v`, which every command has that works for a while.

    Args:
        force: `--force` too, for commands that write what may exist.
    """

    def declare(command: Any) -> Any:
        for declared in (verbose_option, quiet_option, json_option, *([force_option] if force else []), timeout_option):
            command = declared(command)
        return command

    return declare
