"""The `edgex` command: a group whose commands are imported when they are called."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from edgex._version import __version__
from edgex.cli.failure import report_failure
from edgex.errors import EdgexError, nearest_name

# Command -> one line of help, here so that `edgex --help` imports no command.
COMMANDS = {
    "export": "Turn a PyTorch model into artifacts that have proved themselves.",
    "why": "Say what each target takes of a model, what it leaves, and why.",
    "run": "Run an artifact once.",
    "profile": "Measure an artifact: load, latency, memory, every operator.",
    "report": "Show saved profiles: in the terminal, as HTML, Markdown or a trace.",
    "compare": "Hold artifacts, timed in turns, or saved profiles, against the first.",
    "inspect": "Show what an artifact is, needs and has proved.",
    "verify": "Check an artifact again on this machine.",
    "android": "Make an Android app around an artifact.",
    "bundle": "Put an artifact, a runner and a self-test into a folder for Linux machines.",
    "devices": "List the devices that --device can reach.",
    "targets": "List the targets and what works here.",
    "doctor": "Check this environment against the versions that are known to work.",
    "explain": "Say what an engine's error code or log means, and what to do.",
}


_HOMES = {
    **dict.fromkeys(("export", "why", "android", "bundle"), "export"),
    **dict.fromkeys(("run", "verify", "inspect"), "run"),
    **dict.fromkeys(("profile", "compare", "report"), "measure"),
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
        module = importlib.import_module(f"edgex.cli.{_HOMES[cmd_name]}.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the nearest name for an unknown command."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            raise click.UsageError(f"no command {args[0]!r}; {nearest_name(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands for --help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="edgex")
def cli() -> None:
    """Export PyTorch models to devices, prove the result, run it and profile it."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the code that belongs to the outcome (see `edgex.errors`)."""
    try:
        code = cli.main(args=None if args is None else list(args), prog_name="edgex", standalone_mode=False)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except EdgexError as error:
        report_failure(error)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away, as `edgex inspect … | head` does: nothing to report, nobody to read it.
        sys.stderr.close()
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)
