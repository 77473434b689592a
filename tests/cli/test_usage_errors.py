"""A command line that is wrong: one message in the form of every other error, one document where --json asks."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("export", "ok.py"), ("edgex export needs -t/--target", "known: ", "onnx-cpu", "xnnpack", "edgex targets")),
        (("run",), ("edgex run needs ARTIFACT", "edgex run --help")),
        (("run", "a.edgex", "--threads", "two"), ("'two' is not a valid integer",)),
        (("run", "a.edgex", "--thread", "2"), ("--threads", "edgex run --help")),
        (("exprt", "ok.py"), ("no command 'exprt'", "did you mean 'export'?")),
        (("compare", "a.json", "b.json", "-o", "a.md", "--output", "b.md"), ("-o/--output is given 2 times",)),
        (("run", "a.edgex", "--device", "adb", "--device=ssh:box"), ("--device is given 2 times",)),
        (
            ("export", "ok.py", "-t", "reference", "--input-shape", "x=1x3", "--input-shape", "x=2x3"),
            ("--input-shape: 'x' is given twice",),
        ),
        (
            ("export", "ok.py", "-t", "reference", "--dynamic", "x:0=1..8,x:0=1..4"),
            ("--dynamic x:0=1..4: this dimension is given twice",),
        ),
        (("why", "ok.py", "-t", "onnx-cpu", *("--option", "opset=20") * 2), ("--option: 'opset' is given twice",)),
        (("run", "a.edgex", "-o", "x.txt"), ("outputs are written as .npz",)),
        (("run", "a.edgex", "-o", "."), ("-o .: outputs are written as .npz", "fix: -o outputs.npz")),
        (("run", "a.edgex", "-o", "/"), ("outputs are written as .npz", "fix: -o /outputs.npz")),
        (("run", "a.edgex", "-o", ""), ("the path is empty",)),
        (("profile", "a.edgex", "-o", "."), ("fix: -o report.html",)),
        (("profile", "a.edgex", "-o", ""), ("the path is empty",)),
        (("compare", "a.json", "b.json", "-o", "."), ("fix: -o report.html",)),
        (("report", "-o", ".", "a.json"), ("fix: -o report.html",)),
        (("report", "-o", ".json", "a.json", "b.json"), ("takes one report, not 2",)),
        (("export", "ok.py", "-t", ""), ("-t '' lists nothing",)),
        (("export", "ok.py", "-t", "reference", "-t", " , "), ("-t ' , ' lists nothing",)),
        (("export", "ok.py", "-t", "reference", "--exclude", ""), ("--exclude '' lists nothing",)),
        (("export", "ok.py", "-t", "reference", "--dynamic", ","), ("--dynamic ',' lists nothing",)),
        (("why", "ok.py", "-t", ","), ("-t ',' lists nothing",)),
        (("pick", "ok.py", "-t", ""), ("-t '' lists nothing",)),
        (("pick", "ok.py", "--precision", ""), ("--precision '' lists nothing",)),
        (("sweep", "ok.py", "-o", "out", "-t", ""), ("-t '' lists nothing",)),
        (("sweep", "ok.py", "-o", "out", "--device", ","), ("--device ',' lists nothing",)),
        (("bisect", "ok.py", "-t", ""), ("-t '' lists nothing",)),
        (("profile", "a.edgex", "--sweep", ","), ("--sweep ,: expected threads, batch or threads,batch",)),
        (("profile", "a.edgex", "--llm", "-p", ""), ("-p '' lists nothing",)),
        (("upgrade-check", "ok.py", "--against", "nowhere", "-t", ""), ("-t '' lists nothing",)),
        (("run", "a.edgex", "--timeout", "nan"), ("nan is not a finite number",)),
        (("export", "ok.py", "-t", "reference", "--atol", "inf"), ("inf is not a finite number",)),
        (("export", "ok.py", "-t", "reference", "--max-drop", "nan%"), ("nan is not a finite number",)),
        (("report", "nothing.json"), ("nothing.json",)),
        (("explain", "nothing-known"), ("nothing is known about",)),
    ],
)
def test_a_wrong_command_line_is_an_error_and_a_document(arguments, words, edgex):
    done = edgex(*arguments)
    assert done.returncode in (2, 6) and not done.stdout
    assert done.stderr.startswith("error: ") and "Usage:" not in done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    asked = edgex(*arguments, "--json")
    document = json.loads(asked.stdout)
    assert document["schema"] == "edgex.error/1" and document["exit_code"] == asked.returncode == done.returncode


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("export ok.py -t reference", ("--atol", "--rtol", "--min-sqnr", "--min-delegation", "--timeout")),
        ("export ok.py -t xnnpack --quantize int8", ("--max-drop",)),
        ("pick ok.py", ("--max-drop", "--min-sqnr", "--max-seconds")),
        ("bisect ok.py -t reference", ("--min-sqnr", "--time-limit")),
        ("sweep ok.py -t reference", ("--job-timeout",)),
        ("generate a.edgex", ("--temperature", "--top-p")),
        ("compare a.edgex b.edgex", ("--max-seconds", "--fail-on")),
        ("run a.edgex", ("--timeout",)),
    ],
)
@pytest.mark.parametrize("value", ["nan", "inf", "-1"])
def test_numbers_that_bound_nothing_are_refused(command, flags, value, edgex, tmp_path):
    (tmp_path / "ok.py").write_text("never imported")
    for flag in flags:
        done = edgex(*command.split(), flag, value)
        assert done.returncode == 2 and flag in done.stderr and value in done.stderr, (flag, done.stderr)


@pytest.mark.parametrize("command", ["run", "verify", "profile", "generate", "compare", "pick", "sweep"])
def test_threads_that_no_machine_has_are_refused(command, edgex):
    done = edgex(command, "a.edgex", *(["b.edgex"] if command == "compare" else []), "--threads", "100000")
    assert done.returncode == 2 and "100000" in done.stderr and "1024" in done.stderr


def test_more_threads_than_this_machine_can_start_at_once(exported, edgex, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    done = edgex("run", str(exported("convnet", "onnx-cpu")), "--threads", "65")
    assert done.returncode == 2 and "threads must be at most 64 on this machine, not 65" in done.stderr


@pytest.mark.parametrize(
    "flags", [("--precision", "fp8"), ("--llm", "--context", "8", "--input-shape", "x=1x3"), ("-o", "a.edgex")]
)
def test_a_command_line_that_can_be_read_is_a_failure_of_each_target(flags, edgex):
    done = edgex("export", "gone.py", "-t", "reference,onnx-cpu", *flags, "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 2 and document["schema"] == "edgex.export/2"
    assert [failure["target"] for failure in document["failures"]] == ["reference", "onnx-cpu"]


def test_json_behind_the_end_of_options_is_a_file(edgex):
    done = edgex("inspect", "--", "--json")
    assert done.returncode == 6 and not done.stdout and "--json" in done.stderr


def test_an_input_that_is_given_twice(exported, edgex, tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3, np.float32))
    done = edgex("run", str(exported("convnet", "onnx-cpu")), "-i", "x=a.npy", "-i", "x=a.npy")
    assert done.returncode == 2 and "the input 'x' is given twice: -i x=a.npy" in done.stderr


def test_a_reader_that_goes_away_is_no_failure(exported):
    artifact = exported("convnet", "onnx-cpu")
    for arguments in (f"inspect {artifact}", f"inspect {artifact} --json", "targets --json", "explain --list"):
        command = f"set -o pipefail; {sys.executable} -m edgex {arguments} | head -n 1"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), arguments
        assert len(done.stdout.splitlines()) == 1
