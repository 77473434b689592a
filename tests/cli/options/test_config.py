"""Defaults from `[tool.edgex]` and edgex.toml: the nearest file, and nothing in it that is not understood."""

from __future__ import annotations

import click
import pytest

from edgex.cli.main import COMMANDS, cli


@pytest.fixture
def given(tmp_path, monkeypatch):
    """What a command would be called with, by parameter name; stderr in `given.err`."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, folder=None):
        if folder is not None:
            monkeypatch.chdir(tmp_path / folder)
        seen = {}
        name = next(argument for argument in arguments if argument in COMMANDS)
        command = cli.get_command(click.Context(cli), name)
        monkeypatch.setattr(command, "callback", lambda **values: seen.update(values))
        cli.main(list(arguments), prog_name="edgex", standalone_mode=False)
        return seen

    return run


def write(folder, text, name="pyproject.toml"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)


def test_a_table_gives_defaults_and_the_command_line_wins(given, tmp_path):
    write(tmp_path, '[tool.edgex.export]\ntarget = ["xnnpack", "onnx-cpu"]\nmin-delegation = 0.9\nrewrite = false\n')
    values = given("export", "model.py")
    assert values["targets"] == ("xnnpack", "onnx-cpu")
    assert (values["min_delegation"], values["rewrite"]) == (0.9, False)
    assert given("export", "model.py", "-t", "reference", "--rewrite")["targets"] == ("reference",)


def test_what_stands_above_the_tables_is_for_every_command_that_has_it(given, tmp_path):
    write(tmp_path, 'threads = 2\ntarget = "xnnpack"\n[profile]\nthreads = 4\n', "edgex.toml")
    assert given("run", "a.edgex")["threads"] == 2
    assert given("profile", "a.edgex")["threads"] == 4
    assert given("why", "model.py")["targets"] == ("xnnpack",)


def test_the_nearest_file_wins_and_paths_count_from_it(given, tmp_path):
    write(tmp_path, '[tool.edgex.export]\ntarget = "xnnpack"\noutput = "dist"\n')
    write(tmp_path / "inner", "[project]\nname = 'edgex-user'\n")  # no [tool.edgex]: not ours
    values = given("export", "model.py", folder="inner")
    assert values["targets"] == ("xnnpack",) and str(values["output"]) == "../dist"
    write(tmp_path / "inner", '[export]\ntarget = "reference"\n', "edgex.toml")
    values = given("export", "model.py", folder="inner")
    assert values["targets"] == ("reference",) and values["output"] is None


def test_a_mapping_is_key_value_options(given, tmp_path):
    write(tmp_path, '[tool.edgex.export]\ntarget = "onnx-cpu"\noption = { opset = 20 }\ndynamic = { "x:0" = "1..8" }\n')
    values = given("export", "model.py")
    assert values["options"] == ("opset=20",) and values["dynamic"] == ("x:0=1..8",)


def test_no_config_takes_none(given, tmp_path):
    write(tmp_path, "[tool.edgex]\nthreads = 2\n")
    assert given("--no-config", "run", "a.edgex")["threads"] is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.edgex.run]\nthread = 2\n", ("edgex run has no option 'thread'", "did you mean 'threads'?")),
        ("[tool.edgex]\nthread = 2\n", ("no command has an option 'thread'", "did you mean 'threads'?")),
        ("[tool.edgex.rum]\nthreads = 2\n", ("no command 'rum'", "did you mean 'run'?")),
        ("[tool.edgex.run]\nforce = true\n", ("--force belongs on the command line", "leave force out")),
        ("[tool.edgex]\njson = true\n", ("--json belongs on the command line",)),
        ("[tool.edgex.run]\nthreads = 'two'\n", ("'two' is not a valid integer", "from pyproject.toml")),
        ("[tool.edgex\n", ("pyproject.toml is not TOML",)),
        ("[tool]\nedgex = 1\n", ("pyproject.toml: tool.edgex is not a table", "[tool.edgex]")),
        ("tool = 'edgex'\n", ("pyproject.toml: tool is not a table",)),
        ("[tool.edgex]\nthreads = [1, 2]\n", ("threads is a whole number, not [1, 2]", "[tool.edgex]")),
        ("[tool.edgex.run]\nthreads = 1.5\n", ("threads is a whole number, not 1.5", "[tool.edgex.run]")),
        ("[tool.edgex.run]\nthreads = true\n", ("threads is a whole number, not True",)),
        ("[tool.edgex.run]\nallow-fallback = 'no'\n", ("allow-fallback is true or false, not 'no'",)),
        ("[tool.edgex.run]\ntimeout = 'nan'\n", ("nan is not a finite number", "from pyproject.toml")),
        ("[tool.edgex.run]\ntimeout = nan\n", ("nan is not a finite number", "from pyproject.toml")),
        ("[tool.edgex.run]\ntimeout = true\n", ("timeout is a number, not True",)),
        ("[tool.edgex.run]\ntimeout = 2026-01-01\n", ("timeout is a number, not",)),
        ("[tool.edgex.run]\ncheck = 1\n", ("check is a text, not 1",)),
        ("[tool.edgex.run]\noutput = ['a.npz']\n", ("output is a text, not ['a.npz']",)),
        ("[tool.edgex.run]\noutput = ''\n", ("the path is empty", "from pyproject.toml")),
        ("[tool.edgex.run]\ninput = [['a.npz']]\n", ("input is a text, not ['a.npz']",)),
    ],
)
def test_what_is_not_understood_is_refused(text, words, edgex, tmp_path):
    write(tmp_path, text)
    done = edgex("run", "a.edgex")
    assert done.returncode == 2, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert edgex("run", "--help").returncode == 0


def test_an_unknown_key_does_not_list_every_option_there_is(edgex, tmp_path):
    write(tmp_path, "[tool.edgex]\nthread = 2\n")
    assert "known: " not in edgex("run", "a.edgex").stderr
    write(tmp_path, "[tool.edgex]\nsomething-else = 2\n")
    done = edgex("run", "a.edgex")
    assert done.returncode == 2 and "did you mean" not in done.stderr and "why:" not in done.stderr


def test_texts_stand_for_numbers_and_numbers_for_texts(given, tmp_path):
    write(tmp_path, "threads = '2'\ntimeout = 60\ninput = 'a.npz'\n[pick]\nthreads = 2\n", "edgex.toml")
    values = given("run", "a.edgex")
    assert (values["threads"], values["timeout"], values["inputs"]) == (2, 60.0, ("a.npz",))
    assert given("pick", "model.py")["threads"] == "2"


def test_verbose_shows_the_defaults_in_effect(edgex, tmp_path):
    write(tmp_path, "[tool.edgex.run]\nthreads = 2\ncheck = 'size'\n")
    done = edgex("run", "a.edgex", "-v", "--check", "hash")
    assert "default: threads = 2, from pyproject.toml" in done.stderr and "check = " not in done.stderr
    assert "default: " not in edgex("run", "a.edgex").stderr
