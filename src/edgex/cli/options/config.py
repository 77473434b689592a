"""Defaults of options from `[tool.edgex]` in the nearest pyproject.toml, or from the nearest edgex.toml.

```toml
[tool.edgex]                  # edgex.toml: the same without "tool.edgex"
threads = 2                   # for every command that has --threads
[tool.edgex.export]           # for one command; wins over the line above
target = ["xnnpack", "onnx-cpu"]
min-delegation = 0.9
```
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.types import FloatParamType, IntParamType

from edgex.errors import UsageError, nearest_name, nearest_names

# In effect only where they are seen: they decide what is overwritten, and what a script reads.
_COMMAND_LINE_ONLY = ("force", "json", "help")

_AS_TABLE = "write the defaults below a line [tool.edgex]"


@dataclass(frozen=True)
class Config:
    """The file whose defaults hold.

    Attributes:
        path: The file.
        prefix: What stands before a command's name in the head of its table.
        table: Its content.
    """

    path: Path
    prefix: str
    table: Mapping[str, Any]

    @property
    def shown(self) -> str:
        """The path as messages give it."""
        return os.path.relpath(self.path)


def find_config(folder: Path) -> Config | None:
    """The nearest configuration, from a folder upwards; beside each other, edgex.toml wins over pyproject.toml.

    Args:
        folder: Where to start.

    Raises:
        UsageError: A file is not TOML, or has something else than a table in the place of ours.
    """
    for parent in (folder, *folder.parents):
        own, project = parent / "edgex.toml", parent / "pyproject.toml"
        if own.is_file():
            return Config(own, "", _read(own))
        if project.is_file() and "edgex" in _read_text(project):
            table: Any = _read(project)
            for name in ("tool", "edgex"):
                if table is not None and not isinstance(table, Mapping):
                    raise UsageError(f"{os.path.relpath(project)}: tool is not a table", fix=_AS_TABLE)
                table = None if table is None else table.get(name)
            if table is not None and not isinstance(table, Mapping):
                raise UsageError(f"{os.path.relpath(project)}: tool.edgex is not a table", fix=_AS_TABLE)
            if table is not None:
                return Config(project, "tool.edgex", table)
    return None


def defaults_of(
    config: Config, command: click.Command, others: Callable[[], Sequence[click.Command]]
) -> dict[str, Any]:
    """A command's defaults by parameter name, as click takes them.

    Args:
        config: The configuration.
        command: The command that runs.
        others: Gives all commands, for the check of keys that stand above their tables.

    Raises:
        UsageError: A key is no option, or no command, or a value is of another kind than its option's.
    """
    own = _options_by_key(command)
    values: dict[str, Any] = {}
    common = {key: value for key, value in config.table.items() if not isinstance(value, Mapping)}
    tables = {key: value for key, value in config.table.items() if isinstance(value, Mapping)}
    if common or tables.keys() - {command.name}:
        known = {str(other.name): _options_by_key(other) for other in others()}
        anywhere = sorted({key for options in known.values() for key in options})
        for key in common:
            _check_key(config, "", key, anywhere)
        for name in tables:
            if name not in known:
                raise UsageError(
                    f"{config.shown}: no command {name!r}",
                    where=_head(config, name),
                    why=nearest_name(name, known),
                    fix="name the table after a command, or leave it out",
                )
    given = tables.get(str(command.name), {})
    for key in given:
        _check_key(config, str(command.name), key, own)
    for table, entries in (("", common), (str(command.name), given)):
        for key, value in entries.items():
            if (option := own.get(_plain(key))) is not None:
                with _naming(config, table, key):
                    values[str(option.name)] = _as_click_takes(value, option, config)
    return values


def describe_defaults(config: Config, command: click.Command, values: Mapping[str, Any]) -> Iterator[str]:
    """Lines that say which defaults are in effect.

    Args:
        config: Where they are from.
        command: Whose they are.
        values: By parameter name.
    """
    keys = {option.name: key for key, option in _options_by_key(command).items()}
    for name, value in values.items():
        yield f"default: {keys[name]} = {value!s}, from {config.shown}"


def _options_by_key(command: click.Command) -> dict[str, click.Option]:
    """Options by their long name without the dashes."""
    found = {}
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            long = [text for text in parameter.opts if text.startswith("--")]
            key = long[0].removeprefix("--")
            if key not in _COMMAND_LINE_ONLY:
                found[key] = parameter
    return found


def _check_key(config: Config, table: str, key: str, known: Mapping[str, Any] | Sequence[str]) -> None:
    plain = _plain(key)
    if plain in known:
        return
    if plain in _COMMAND_LINE_ONLY:
        raise UsageError(
            f"{config.shown}: --{plain} belongs on the command line",
            where=_head(config, table),
            fix=f"leave {key} out of the file",
        )
    meant = nearest_names(plain, known)
    of = f"edgex {table} has" if table else "no command has"
    raise UsageError(
        f"{config.shown}: {of}{' no' if table else ' an'} option {key!r}",
        where=_head(config, table),
        why=f"did you mean {' or '.join(map(repr, meant))}?" if meant else None,
        fix=f"edgex {table or 'COMMAND'} --help explains every option",
    )


def _head(config: Config, table: str) -> str:
    name = ".".join(part for part in (config.prefix, table) if part)
    return f"{config.shown} [{name}]" if name else config.shown


def _plain(key: str) -> str:
    return key.replace("_", "-")


@contextmanager
def _naming(config: Config, table: str, key: str) -> Iterator[None]:
    """What is wrong with a value is said of its key and file."""
    try:
        yield
    except _OtherKind as error:
        raise UsageError(
            f"{config.shown}: {key} is {error.wanted}, not {error.value!r}", where=_head(config, table)
        ) from None


class _OtherKind(Exception):
    """A value of another kind than its option's."""

    def __init__(self, wanted: str, value: Any) -> None:
        super().__init__(wanted)
        self.wanted, self.value = wanted, value


def _as_click_takes(value: Any, option: click.Option, config: Config) -> Any:
    """A TOML value as the texts that stand on a command line; paths count from the folder of the file."""
    if not option.multiple:
        return _one_value(value, option, config)
    if isinstance(value, Mapping):  # option = {opset = 20} is `--option opset=20`
        if not all(isinstance(part, (str, int, float)) for part in value.values()):
            raise _OtherKind("a table of texts and numbers", dict(value))
        value = [f"{key}={part}" for key, part in value.items()]
    return [_one_value(part, option, config) for part in (value if isinstance(value, list) else [value])]


def _one_value(value: Any, option: click.Option, config: Config) -> Any:
    """One value, of the option's kind; a text may stand for a number, as on a command line."""
    kinds: tuple[type, ...]
    if option.is_flag:
        kinds, wanted = (bool,), "true or false"
    elif isinstance(option.type, IntParamType):
        kinds, wanted = (int, str), "a whole number"
    elif isinstance(option.type, FloatParamType):
        kinds, wanted = (int, float, str), "a number"
    elif isinstance(option.type, (click.Path, click.Choice)):
        kinds, wanted = (str,), "a text"
    else:
        kinds, wanted = (str, int, float), "a text"
    if not isinstance(value, kinds) or (isinstance(value, bool) and not option.is_flag):
        raise _OtherKind(wanted, value)
    if isinstance(option.type, click.Path) and value:
        return os.path.relpath(config.path.parent / str(value))
    return value


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {os.path.relpath(path)}", why=str(error)) from error


def _read(path: Path) -> Mapping[str, Any]:
    import tomllib

    try:
        return tomllib.loads(_read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{os.path.relpath(path)} is not TOML", why=str(error)) from error
