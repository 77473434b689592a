"""Commands whose --help is grouped, whose defaults may come from a file, and whose old spellings still work."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

# The order in which --help shows them.
GROUPS = (
    "Model",
    "Target",
    "Language models",
    "Precision and quantization",
    "Proof and limits",
    "Input and output",
    "Generation",
    "Measurement",
    "App",
    "Device",
    "General",
)

# Longer names stand on a line of their own.
_NAME_WIDTH = 30


class Option(click.Option):
    """An option that says under which heading of --help it stands."""

    def __init__(self, *arguments: Any, group: str = "General", **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.group = group

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """As click does it; an empty path, of an empty variable of a script, is not the current folder."""
        given = value if isinstance(value, (list, tuple)) else [value]
        if isinstance(self.type, click.Path) and "" in given:
            raise click.BadParameter("the path is empty", ctx, self)
        taken = super().process_value(ctx, value)
        # Comparisons with NaN are all false: it is below no bound and above none.
        for one in taken if isinstance(taken, tuple) else (taken,):
            if isinstance(one, float) and not math.isfinite(one):
                raise click.BadParameter(f"{one} is not a finite number", ctx, self)
        return taken


def option(*declarations: str, group: str, help: str, **attributes: Any) -> Callable[[_Decorated], _Decorated]:
    """Declare an option; as `click.option`, with a group, and never without an explanation.

    Args:
        declarations: For example `-t`, `--target`, and a parameter name.
        group: One of `GROUPS`.
        help: What it does, a sentence.
        attributes: As click takes them.
    """
    return click.option(*declarations, cls=Option, group=group, help=help, **attributes)


class Command(click.Command):
    """A command of edgex.

    Args:
        arguments: As click takes them.
        renamed: Old spellings of options and what they are called now; they work, and say so on stderr.
        attributes: As click takes them.
    """

    def __init__(self, *arguments: Any, renamed: Mapping[str, str] | None = None, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self._renamed = dict(renamed or {})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, with defaults from the nearest configuration; `-v` shows which of them are in effect."""
        args = [self._current_spelling(text, ctx) for text in args]
        asks_for_help = any(text in ctx.help_option_names for text in args)
        if not (asks_for_help or ctx.resilient_parsing):
            self._check_given_once(args, ctx)
        found = None
        if not (asks_for_help or ctx.resilient_parsing or ctx.find_root().params.get("no_config")):
            from edgex.cli.options.config import find_config

            found = find_config(Path.cwd())
        if found is None:
            return super().parse_args(ctx, args)
        from edgex.cli.options.config import defaults_of, describe_defaults

        ctx.default_map = defaults_of(found, self, _siblings(ctx))
        try:
            rest = super().parse_args(ctx, args)
        except click.BadParameter as error:
            name = error.param.name if error.param else None
            if name and ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP:
                raise click.BadParameter(f"{error.message} (from {found.shown})", error.ctx, error.param) from error
            raise
        if ctx.params.get("verbose"):
            in_effect = [n for n in ctx.params if ctx.get_parameter_source(n) is ParameterSource.DEFAULT_MAP]
            for line in describe_defaults(found, self, {name: ctx.default_map[name] for name in in_effect}):
                click.echo(line, err=True)
        return rest

    def _check_given_once(self, args: list[str], ctx: click.Context) -> None:
        """Refuse a second value for an option that has one; click would silently keep the last."""
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for parameter in given:
            takes_one = isinstance(parameter, click.Option) and not (
                parameter.multiple or parameter.is_flag or parameter.count
            )
            if takes_one and given.count(parameter) > 1:
                text = f"{'/'.join(parameter.opts)} is given {given.count(parameter)} times, and has one value"
                raise click.BadOptionUsage(str(parameter.name), text, ctx)

    def _current_spelling(self, text: str, ctx: click.Context) -> str:
        name, separator, value = text.partition("=")
        if name not in self._renamed:
            return text
        if not ctx.resilient_parsing:
            click.echo(f"note: {name} is now {self._renamed[name]}; the old spelling will go", err=True)
        return self._renamed[name] + separator + value

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options of --help under their headings."""
        listed: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                listed[_group_of(parameter)].append(record)
        # One column for all groups.
        names = [name for records in listed.values() for name, _ in records]
        width = min(_NAME_WIDTH, max(len(name) for name in names))
        for group, records in listed.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl([(name.ljust(width), text) for name, text in records], col_max=_NAME_WIDTH)


def make_command(name: str, **attributes: Any) -> Callable[[Callable[..., Any]], Command]:
    """Declare a command of edgex; as `click.command`."""
    return click.command(name, cls=Command, **attributes)


def given_flags(flags: Mapping[str, str]) -> list[str]:
    """Those of the flags that stand on the command line, whatever a configuration says.

    Args:
        flags: Parameter names by flag.
    """
    source = click.get_current_context().get_parameter_source
    return [flag for flag, name in flags.items() if source(name) is ParameterSource.COMMANDLINE]


def _group_of(parameter: click.Parameter) -> str:
    return parameter.group if isinstance(parameter, Option) else "General"


def _siblings(ctx: click.Context) -> Callable[[], Sequence[click.Command]]:
    """All commands of edgex; imported only when they are asked for."""
    parent = ctx.parent

    def load() -> Sequence[click.Command]:
        if parent is None or not isinstance(parent.command, click.Group):
            return ()
        group = parent.command
        return [found for name in group.list_commands(parent) if (found := group.get_command(parent, name))]

    return load
