"""`--help`: every option explained, under a heading, and old spellings that still work."""

from __future__ import annotations

import click
import pytest

from edgex.cli.main import COMMANDS, cli
from edgex.cli.options.command import GROUPS


def commands():
    context = click.Context(cli)
    return {name: cli.get_command(context, name) for name in COMMANDS}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained_under_a_heading(name, edgex):
    shown = edgex(name, "--help")
    assert shown.returncode == 0 and not shown.stderr
    headings = [line[:-1] for line in shown.stdout.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == [group for group in GROUPS if group in headings], "unknown headings, or out of order"
    assert "Options:" not in shown.stdout
    for parameter in commands()[name].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{parameter.opts} has no explanation"
            assert parameter.opts[-1] in shown.stdout


def test_options_of_one_name_are_explained_in_the_same_words():
    """What differs on purpose says so: what an output is, and what threads are for."""
    said, alike = {}, ("check", "as_json", "quiet", "verbose", "timeout")
    for name, command in commands().items():
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.name in alike:
                said.setdefault(parameter.name, {}).setdefault(parameter.help, []).append(name)
    assert {name: len(texts) for name, texts in said.items()} == dict.fromkeys(said, 1), said


def test_every_command_takes_quiet():
    """A script appends it to whatever it runs."""
    without = [name for name, command in commands().items() if not any("-q" in p.opts for p in command.params)]
    assert not without


def test_shares_come_in_percent_too(monkeypatch):
    seen = []
    command = commands()["export"]
    monkeypatch.setattr(command, "callback", lambda **given: seen.append((given["max_drop"], given["min_delegation"])))
    for drop, least in (("1%", "90%"), ("0.01", "0.9")):
        flags = ["--max-drop", drop, "--min-delegation", least]
        command.main(["model.py", "-t", "reference", *flags], standalone_mode=False)
    assert seen == [(0.01, 0.9)] * 2
    with pytest.raises(click.BadParameter):
        command.main(["model.py", "-t", "reference", "--max-drop", "one%"], standalone_mode=False)


@pytest.mark.parametrize("verb", ["export", "why"])
def test_the_old_spelling_of_no_rewrite_works_and_says_so(verb, edgex, tmp_path):
    (tmp_path / "model.py").write_text("raise RuntimeError('reached')\n")
    old, new = (edgex(verb, "model.py", "-t", "reference", flag) for flag in ("--no-fix", "--no-rewrite"))
    assert "--no-fix is now --no-rewrite" in old.stderr and "--no-fix" not in new.stderr
    assert old.returncode == new.returncode and "reached" in old.stderr and "reached" in new.stderr
    assert "--no-fix" not in edgex(verb, "--help").stdout


def test_the_old_spelling_sets_the_same_value(monkeypatch):
    seen = []
    command = commands()["export"]
    monkeypatch.setattr(command, "callback", lambda **given: seen.append(given["rewrite"]))
    for flags in (["--no-fix"], ["--no-rewrite"], ["--fix"], ["--rewrite"], []):
        command.main(["model.py", "-t", "reference", *flags], standalone_mode=False)
    assert seen == [False, False, True, True, True]
