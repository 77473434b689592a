"""docs/json.md is true: each command prints a document with the keys and types of the example below it."""

import itertools
import json
import shutil
from pathlib import Path

import pytest
from doc_blocks import read_blocks, read_commands, run_command, write_files

pytestmark = pytest.mark.long_file

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "json.md"
BLOCKS = read_blocks(PAGE)
# A sweep takes half a minute; tests/cli/measure/test_sweep_command.py makes one anyway.
EXAMPLES = [
    pytest.param(
        read_commands(block),
        json.loads(example.text),
        id=f"{block.line}",
        marks=[pytest.mark.slow] if "--sweep" in block.text else [],
    )
    for block, example in itertools.pairwise(BLOCKS)
    if (block.language, example.language) == ("console", "json")
]

_NAMES = (
    "android",
    "bisect",
    "compare",
    "devices",
    "doctor",
    "error",
    "explain",
    "export",
    "generate",
    "inspect",
    "pick",
    "profile-llm",
    "report",
    "run",
    "scorecard",
    "sign",
    "sweep",
    "targets",
    "verify",
    "why",
)

# Objects whose keys depend on what is installed or on the model.
FREE_KEYS = (
    ".versions",
    ".producer",
    ".options",
    ".engine_options",
    ".tuned_options",
    ".card",
    ".packages",
    ".variables",
)
# Lists of names that a noisy machine fills, whatever the example's run found.
NAMES_BY_NOISE = (".fail_on.undecided",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("json")
    shutil.copytree(ROOT / "samples", made / "samples", ignore=shutil.ignore_patterns("__pycache__"))
    write_files(BLOCKS, made)
    return made


@pytest.mark.parametrize(("commands", "example"), EXAMPLES)
def test_example(commands, example, folder):
    for command in commands:
        done = run_command(command, folder)
        assert done.returncode == command.exit_code, done.stderr
    differences = list(find_differences(example, json.loads(done.stdout)))
    assert not differences, "\n".join(differences)


def test_every_schema_has_its_example():
    shown = {param.values[1]["schema"] for param in EXAMPLES}
    assert {schema.rpartition("/")[0] for schema in shown} == {f"edgex.{name}" for name in _NAMES}


def test_the_comparison_can_fail():
    assert not list(find_differences({"a": 1, "b": [{"c": None}]}, {"a": 2.5, "b": [{"c": "x"}, {"c": None}]}))
    assert list(find_differences({"a": 1}, {"a": 1, "b": 2})) == ["$: not in the example: b"]
    assert list(find_differences({"a": 1, "b": 2}, {"a": 1})) == ["$: in the example only: b"]
    assert list(find_differences({"a": 1}, {"a": "1"})) == ["$.a: str where the example has a number"]
    assert list(find_differences([], [1])) == ["$: the example's list is empty"]
    assert not list(find_differences({"undecided": []}, {"undecided": ["b"]}, "$.fail_on"))
    assert list(find_differences({"undecided": []}, {"undecided": [1]}, "$.fail_on"))


def find_differences(example, actual, at="$"):
    """Where keys or types differ. null goes with anything, a list entry with the example's nearest."""
    if example is None or actual is None:
        return
    if _kind(example) != _kind(actual):
        yield f"{at}: {_kind(actual)} where the example has a {_kind(example)}"
    elif isinstance(example, dict) and at.endswith(FREE_KEYS):
        for key in actual:
            yield from find_differences(next(iter(example.values()), actual[key]), actual[key], f"{at}.{key}")
    elif isinstance(example, dict):
        for keys, words in (
            (actual.keys() - example.keys(), "not in the example"),
            (example.keys() - actual.keys(), "in the example only"),
        ):
            if keys:
                yield f"{at}: {words}: {', '.join(sorted(keys))}"
        for key in example.keys() & actual.keys():
            yield from find_differences(example[key], actual[key], f"{at}.{key}")
    elif isinstance(example, list):
        if at.endswith(NAMES_BY_NOISE):
            example = [*example, "a name"]
        if actual and not example:
            yield f"{at}: the example's list is empty"
        for number, item in enumerate(actual if example else []):
            found = [list(find_differences(entry, item, f"{at}[{number}]")) for entry in example]
            yield from min(found, key=len)


def _kind(value):
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, (int, float)) else type(value).__name__
