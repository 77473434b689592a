"""Shell completion: commands, options, targets, artifacts; in a process of its own, as a shell asks for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAVY = ("torch", "numpy", "rich", "executorch", "onnx", "onnxruntime")
SCRIPT = (
    "import sys\nfrom edgex.cli.main import main\ntry:\n    main([])\nfinally:\n"
    f"    print(*(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)"
)


@pytest.fixture
def complete(tmp_path):
    """What bash would be offered for the last word; fails if something heavy was imported for it."""

    def ask(*words):
        environment = {
            **os.environ,
            "_EDGEX_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("edgex", *words)),
            "COMP_CWORD": str(len(words)),
        }
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.stderr.strip() == "", done.stderr
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    return ask


def test_commands_and_options(complete):
    assert {"profile"} == set(complete("prof"))
    assert "--min-delegation" in complete("export", "--min")


def test_targets_also_behind_a_comma(complete):
    assert complete("export", "m.py", "-t", "on") == ["onednn", "onnx-cpu", "onnx-qnn", "onnx-rocm"]
    assert "xnnpack,onnx-cpu" in complete("export", "m.py", "-t", "xnnpack,onn")
    assert "xnnpack,xnnpack" not in complete("why", "m.py", "--target", "xnnpack,x")


def test_artifacts_here_and_one_folder_down(complete, tmp_path):
    for name in ("a.xnnpack.edgex", "out/b.onnx-cpu.edgex", "out/notes"):
        (tmp_path / name).mkdir(parents=True)
    assert complete("run", "") == ["a.xnnpack.edgex", "out/b.onnx-cpu.edgex"]
    assert complete("compare", "out/") == ["out/b.onnx-cpu.edgex"]
    assert complete("inspect", "a") == ["a.xnnpack.edgex"]
