"""`edgex explain`: codes, messages, log files and stdin; ranking; and bad input."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edgex.explain.dictionary import DICTIONARY
from edgex.explain.search import find_code, find_in_log
from edgex.runtime.engines.executorch.errors import ERROR_CODES


def test_the_dictionary_is_large_and_whole() -> None:
    assert len(DICTIONARY) - len(ERROR_CODES) >= 40
    codes = [entry.code for entry in DICTIONARY]
    assert len(set(codes)) == len(codes)
    for entry in DICTIONARY:
        assert re.compile(entry.pattern)
        assert len(entry.cause) > 20 and len(entry.fix) > 5, entry.code
        assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", issue) for issue in entry.issues), entry.code


@pytest.mark.parametrize(
    ("query", "codes"),
    [
        ("0x14", ["0x14"]),
        ("0X14", ["0x14"]),
        ("0x:14", ["0x14"]),
        ("20", ["0x14", "0x20"]),
        ("32", ["0x20", "0x32"]),
        ("missing-out-variants", ["missing-out-variants"]),
        ("nonsense", []),
    ],
)
def test_codes_in_every_form(query: str, codes: list[str]) -> None:
    assert [match.entry.code for match in find_code(query)] == codes


LOG = """\
[program.cpp:130] InternalConsistency verification requested but not available
\x1b[31m[method.cpp:822] Missing operator: [0] aten::sort.values\x1b[0m
[method.cpp:822] Missing operator: [3] aten::topk.values
RuntimeError: loading method forward failed with error 0x14
"""


def test_the_telling_message_comes_before_the_bare_code() -> None:
    matches = find_in_log(LOG.splitlines())
    assert [match.entry.code for match in matches] == ["missing-operator", "0x14"]
    assert (matches[0].line, matches[0].count) == (2, 2)
    assert matches[0].text == "[method.cpp:822] Missing operator: [0] aten::sort.values"


def test_an_address_is_not_an_error_code() -> None:
    assert find_in_log(["frame #3: 0x7f0014 in forward", "loaded 0x14 bytes"]) == []


def test_a_log_file_is_read(edgex: Callable, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text(LOG)
    done = edgex("explain", "run.log", "--json")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert document["schema"] == "edgex.explain/1"
    assert [match["code"] for match in document["matches"]] == ["missing-operator", "0x14"]
    shown = edgex("explain", "run.log").stdout
    assert "missing-operator" in shown and "executorch/issues/21950" in shown and "(2 lines)" in shown


def test_a_log_comes_from_stdin() -> None:
    command = [sys.executable, "-m", "edgex", "explain", "-", "--json"]
    done = subprocess.run(command, input=LOG, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["matches"][0]["code"] == "missing-operator"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("0x14\n", 0, "OperatorMissing"),
        ("\nMissing out variants: {'aten::x'}\n", 0, "missing-out-variants"),
        ("missing-out-varants\n", 2, "did you mean 'missing-out-variants'"),
        ("the engine broke", 2, "no entry matches 'the engine broke'"),
        ("all is well\nand over\n", 0, "no line of it"),
    ],
)
def test_one_line_on_stdin_is_as_the_argument(text: str, code: int, words: str) -> None:
    command = [sys.executable, "-m", "edgex", "explain", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == code and words in done.stdout + done.stderr


def test_a_message_in_quotes_is_found(edgex: Callable) -> None:
    assert "missing-out-variants" in edgex("explain", "Missing out variants: {'aten::x'}").stdout


def test_a_log_without_known_messages_says_so(edgex: Callable, tmp_path: Path) -> None:
    (tmp_path / "calm.log").write_text("all is well\n")
    done = edgex("explain", "calm.log")
    assert done.returncode == 0 and "no line of it" in done.stdout


def test_an_unknown_code_gets_the_nearest(edgex: Callable) -> None:
    done = edgex("explain", "missing-out-varants")
    assert done.returncode == 2 and "did you mean 'missing-out-variants'" in done.stderr
    document = json.loads(edgex("explain", "missing-out-varants", "--json").stdout)
    assert (document["schema"], document["exit_code"]) == ("edgex.error/1", 2)


def test_a_file_that_is_not_there(edgex: Callable) -> None:
    assert "no such file: logs/run.log" in edgex("explain", "logs/run.log").stderr


@pytest.mark.parametrize("said", ["the engine broke", "error in runtime/core/method.cpp: no such thing", "see it.log"])
def test_an_unknown_message_is_no_missing_file(edgex: Callable, said: str) -> None:
    done = edgex("explain", said, "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 2 and document["what"] == f"no entry matches {said!r}"
    assert "edgex explain LOG" in document["fix"] and "edgex explain --list" in document["fix"]


def test_a_folder_is_no_log(edgex: Callable, tmp_path: Path) -> None:
    done = edgex("explain", str(tmp_path))
    assert done.returncode == 2 and "is a folder" in done.stderr


def test_a_binary_log_is_read_all_the_same(edgex: Callable, tmp_path: Path) -> None:
    (tmp_path / "binary.log").write_bytes(b"\xff\xfe\x00\n" * 100 + b"Backend XnnpackBackend is not registered.\n")
    assert "backend-not-registered" in edgex("explain", "binary.log").stdout


def test_only_the_end_of_a_huge_log_is_read(edgex: Callable, tmp_path: Path) -> None:
    with (tmp_path / "huge.log").open("wb") as stream:
        stream.truncate(1 << 30)
        stream.seek(0, 2)
        stream.write(b"\nMissing out variants: {'a::b'}\n")
    assert "missing-out-variants" in edgex("explain", "huge.log").stdout


def test_the_list_has_every_code(edgex: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # an entry a line
    head, *lines = edgex("explain", "--list").stdout.splitlines()
    assert head.split() == ["code", "engine", "meaning"]
    assert [line.split()[0] for line in lines] == [entry.code for entry in DICTIONARY]


@pytest.mark.parametrize("number", sorted(ERROR_CODES))
def test_every_code_of_executorch_is_found_in_its_forms(number: int) -> None:
    for text in (
        f"RuntimeError: Failed to execute method forward, error: 0x{number:02x}",
        f"RuntimeError: loading method forward failed with error 0x{number:x}"
        if number > 15
        else f"error 0x{number:02x}",
        f"CALL_DELEGATE execute failed at instruction 6: 0x{number:02x}",
        f"Failed to create MmapDataLoader from file model.pte, error: 0x:{number:02x}",
    ):
        assert f"0x{number:02x}" in {match.entry.code for match in find_in_log([text])}, text
    assert find_code(str(number))[0].entry.code == f"0x{number:02x}"
