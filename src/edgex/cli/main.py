"""The `edgex` command: a group whose commands are imported when they are called."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from edgex._version import __version__
from edgex.cli.board import BOARD
from edgex.cli.failure import failure_document, output_failure, print_json, report_failure
from edgex.errors import EdgexError, Interrupted, UsageError, nearest_name

# Command -> one line of help, here so that `edgex --help` imports no command.
COMMANDS = {
    "export": "Turn a PyTorch model into artifacts that have proved themselves.",
    "pick": "Export in every combination, measure, and keep the best for this machine.",
    "sweep": "Export and measure many models in many combinations, a row for each.",
    "why": "Say what each target takes of a model, what it leaves, and why.",
    "bisect": "Find the operators that give other numbers than PyTorch.",
    "run": "Run an artifact once.",
    "generate": "Generate text with the artifact of a language model.",
    "profile": "Measure an artifact: load, latency, memory, every operator.",
    "report": "Show saved profiles: in the terminal, as HTML, Markdown or a trace.",
    "compare": "Hold artifacts, timed in turns, or saved profiles, against the first.",
    "inspect": "Show what an artifact is, needs and has proved.",
    "verify": "Check an artifact again on this machine.",
    "android": "Make an Android app around an artifact.",
    "upgrade-check": "Export models in two environments, and say what another one would change.",
    "sbom": "Print what an artifact is made of, as a CycloneDX document.",
    "sign": "Sign an artifact with a key.",
    "bundle": "Put an artifact, a runner and a self-test into a folder for Linux machines.",
    "devices": "List the devices that --device can reach.",
    "targets": "List the targets and what works here.",
    "doctor": "Check this environment against the versions that are known to work.",
    "explain": "Say what an engine's error code or log means, and what to do.",
}


_HOMES = {
    **dict.fromkeys(("export", "pick", "sweep", "why", "bisect", "android", "bundle"), "export"),
    **dict.fromkeys(("run", "generate", "verify", "inspect"), "run"),
    **dict.fromkeys(("profile", "compare", "report"), "measure"),
    **dict.fromkeys(("upgrade-check", "sbom", "sign"), "supply"),
    **dict.fromkeys(("devices", "targets", "doctor", "explain"), "environment"),
}


class LazyGroup(click.Group):
    """Imports a command's module when the command is called, and lists all of them without importing any."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"edgex.cli.{_HOMES[cmd_name]}.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; a reader that went away, as `head` does in `edgex inspect … | head -1`, is no failure."""
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()  # here, where it can be answered, not when the interpreter ends
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.exit(0)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the nearest name for an unknown command."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            fix = "edgex --help says what each of them does"
            raise UsageError(f"no command {args[0]!r}", why=nearest_name(args[0], COMMANDS), fix=fix)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands for --help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Where more is."""
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text("edgex COMMAND --help explains every option of a command.")


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="edgex")
@click.option("--no-config", is_flag=True, help="Take no defaults from pyproject.toml or edgex.toml.")
def cli(no_config: bool) -> None:
    """Export PyTorch models to devices, prove the result, run it and profile it."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the code that belongs to the outcome (see `edgex.errors`)."""
    arguments = sys.argv[1:] if args is None else list(args)
    _open_closed_streams()
    BOARD.clear()
    # https://no-color.org: any value that is not empty; click does not look, and rich does so itself.
    color = False if os.environ.get("NO_COLOR") else None
    with click.Context(cli, color=color).scope():
        _run(arguments, color)


def _run(arguments: Sequence[str], color: bool | None) -> NoReturn:
    try:
        code = cli.main(args=arguments, prog_name="edgex", standalone_mode=False, color=color)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _fail(_as_ours(error), arguments)
    except EdgexError as error:
        _fail(error, arguments)
    except (KeyboardInterrupt, click.Abort):
        end_interrupted(arguments)
    except OSError as error:
        failure = output_failure(error)
        if failure is None:
            raise
        report_failure(failure)
        # What is still in the buffer cannot be written either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(failure.exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def end_interrupted(arguments: Sequence[str]) -> NoReturn:
    """Say that Ctrl-C ended the command, as a document too where one was asked for, and exit.

    Args:
        arguments: The command line.
    """
    ending = Interrupted("interrupted")
    if _asks_for_json(arguments) and not BOARD.answered:
        print_json(failure_document(ending))
    click.echo(ending.what, err=True)
    sys.exit(ending.exit_code)


def _open_closed_streams() -> None:
    """Let a standard stream that the caller closed (`edgex run … >&-`) lead to /dev/null.

    Nobody wants what would be written there, and the next file that is opened must not get its number.
    """
    for number, mode in enumerate(("r", "w", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free is this one
        name = ("stdin", "stdout", "stderr")[number]
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _fail(error: EdgexError, arguments: Sequence[str]) -> NoReturn:
    """Show an error, as a document too where one was asked for, and exit with its code."""
    if _asks_for_json(arguments):
        print_json(failure_document(error))
    flags = _before_files(arguments)
    report_failure(error, trace="-v" in flags or "--verbose" in flags)
    sys.exit(error.exit_code)


def _asks_for_json(arguments: Sequence[str]) -> bool:
    return "--json" in _before_files(arguments)


def _before_files(arguments: Sequence[str]) -> Sequence[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _as_ours(error: click.ClickException) -> UsageError:
    """What click found wrong with the command line, in the form of every other error."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "edgex"
    fix = f"{path} --help explains every option"
    if isinstance(error, click.MissingParameter) and error.param is not None:
        known = error.param.type.get_missing_message(error.param, context)
        if isinstance(error.param, click.Argument):
            return UsageError(f"{path} needs {error.param.human_readable_name}", fix=fix)
        why = f"known: {known}" if known else None
        fix = f"edgex targets says which of them work here; {fix}" if error.param.name == "targets" else fix
        return UsageError(f"{path} needs {'/'.join(error.param.opts)}", why=why, fix=fix)
    text = error.format_message().strip().rstrip(".")
    return UsageError(text[:1].lower() + text[1:], fix=fix)
