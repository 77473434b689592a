"""Bad models and flags: exit code, sentence, and an output folder that is as it was before."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.long_file

Edgex = Callable[..., subprocess.CompletedProcess[str]]

HEAD = "import torch\nfrom torch import nn\n\n"
LINEAR = HEAD + "model = nn.Linear(4, 2).eval()\nexample_inputs = (torch.randn(1, 4),)\n"

# name: (content of model.py or None, arguments after `export`, exit code, what the message says)
CASES: dict[str, tuple[str | None, list[str], int, list[str]]] = {
    "no such file": (None, ["nope.py", "-t", "reference"], 2, ["no such file: nope.py"]),
    "misspelt file": (LINEAR, ["modle.py", "-t", "reference"], 2, ["no such file: modle.py", "did you mean model.py"]),
    "neither python nor pt2": (LINEAR, ["notes.txt", "-t", "reference"], 2, ["notes.txt"]),
    "syntax error": ("x = (\n", ["model.py", "-t", "reference"], 2, ["model.py:1"]),
    "import error": (
        "import no_such_package\n" + LINEAR,
        ["model.py", "-t", "reference"],
        2,
        ["no_such_package", "model.py:1"],
    ),
    "file that raises": (
        HEAD + "raise ValueError('not today')\n",
        ["model.py", "-t", "reference"],
        2,
        ["not today", "model.py:4"],
    ),
    "no model": ("x = 1\n", ["model.py", "-t", "reference"], 2, ["get_model"]),
    "two candidates": (
        HEAD
        + "class A(nn.Module):\n    def forward(self, x): return x\n"
        + "class B(nn.Module):\n    def forward(self, x): return x\n",
        ["model.py", "-t", "reference"],
        2,
        ["model.py:A", "model.py:B"],
    ),
    "unknown name": (LINEAR, ["model.py:modle", "-t", "reference"], 2, ["modle", "did you mean 'model'"]),
    "example of the wrong shape": (
        HEAD + "model = nn.Linear(4, 2).eval()\nexample_inputs = (torch.randn(1, 5),)\n",
        ["model.py", "-t", "reference"],
        3,
        ["example inputs", "1x5"],
    ),
    "output is a set": (
        HEAD + "class M(nn.Module):\n    def forward(self, x): return x * 2, {'done'}\n"
        "def get_model(): return M().eval()\ndef get_args(): return (torch.randn(3),)\n",
        ["model.py", "-t", "reference"],
        3,
        ["output_1 is a set", "return tensors"],
    ),
    "NaN weights": (
        HEAD + "model = nn.Linear(4, 2).eval()\nmodel.weight.data[0, 1] = float('nan')\n"
        "example_inputs = (torch.randn(1, 4),)\n",
        ["model.py", "-t", "reference"],
        3,
        ["NaN", "weight"],
    ),
    "unknown target": (LINEAR, ["model.py", "-t", "xnpack"], 2, ["unknown target 'xnpack'", "did you mean 'xnnpack'"]),
    "target twice": (LINEAR, ["model.py", "-t", "reference,reference"], 2, ["given twice"]),
    "unknown precision": (LINEAR, ["model.py", "-t", "reference", "--precision", "fp23"], 2, ["'fp32'"]),
    "precision that the target refuses": (
        LINEAR,
        ["model.py", "-t", "xnnpack", "--precision", "bf16"],
        5,
        ["does not take --precision bf16"],
    ),
    "quantization that no target offers": (
        LINEAR,
        ["model.py", "-t", "reference", "--quantize", "int3"],
        2,
        ["unknown quantization recipe 'int3'"],
    ),
    "unknown option": (LINEAR, ["model.py", "-t", "reference", "--option", "speed=11"], 2, ["option 'speed'"]),
    "option without value": (LINEAR, ["model.py", "-t", "reference", "--option", "speed"], 2, ["expected key=value"]),
    "shape of another form": (
        LINEAR,
        ["model.py", "-t", "reference", "--input-shape", "x:1x4"],
        2,
        ["expected name=SIZExSIZE"],
    ),
    "shape for an unknown input": (
        LINEAR,
        ["model.py", "-t", "reference", "--input-shape", "y=1x4"],
        2,
        ["there is no such input", "known: input"],
    ),
    "bounds in the wrong order": (
        LINEAR,
        ["model.py", "-t", "reference", "--dynamic", "input:0=8..1"],
        2,
        ["min must be below max"],
    ),
    "dynamic axis of an unknown input": (LINEAR, ["model.py", "-t", "reference", "--dynamic", "y:0=1..8"], 2, ["'y'"]),
    "delegation share above one": (
        LINEAR,
        ["model.py", "-t", "reference", "--min-delegation", "90"],
        2,
        ["between 0 and 1"],
    ),
    "unknown flag": (LINEAR, ["model.py", "-t", "reference", "--presicion", "fp16"], 2, ["--precision"]),
    "unknown verification case": (
        LINEAR,
        ["model.py", "-t", "reference", "--skip-case", "stress: huge"],
        2,
        ["there is no such case"],
    ),
    "misspelled verification case, before the file is read": (
        "raise SystemError('the file was run')\n",
        ["model.py", "-t", "reference", "--skip-case", "exmaple"],
        2,
        ["--skip-case 'exmaple': there is no such case", "did you mean 'example'?"],
    ),
    "verification case of other inputs": (
        LINEAR,
        ["model.py", "-t", "reference", "--skip-case", "stress: channels_last memory"],
        2,
        ["there is no such case", "known: example, stress: NaN"],
    ),
    "sizes that vary from 0": (
        LINEAR,
        ["model.py", "-t", "reference", "--dynamic", "input:0=0..8"],
        2,
        ["input:0=0..8 allows a size of 0", "--dynamic input:0=1..8"],
    ),
    "sizes that follow others down to 0": (
        LINEAR,
        ["model.py", "-t", "reference", "--dynamic", "input:0=L-1=1..8"],
        2,
        ["allows a size of 0"],
    ),
    "an example of no values": (
        LINEAR,
        ["model.py", "-t", "reference", "--input-shape", "input=0x4"],
        2,
        ["the example input input has no values, and nothing can be proved", "input: float32[0, 4]"],
    ),
    "outputs that prove nothing": (
        HEAD + "class M(nn.Module):\n    def forward(self, x): return x * 0.0\n"
        "def get_model(): return M().eval()\ndef get_args(): return (torch.randn(3),)\n",
        ["model.py", "-t", "reference"],
        4,
        ["nothing was proved of an output", "constant or near zero", "--allow-inconclusive"],
    ),
    "state that the inputs do not show": (
        HEAD + "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.register_buffer('last', torch.zeros(3))\n"
        "    def forward(self, x):\n        self.last.copy_(x)\n        return self.last * 2\n"
        "def get_model(): return M().eval()\ndef get_args(): return (torch.randn(3),)\n",
        ["model.py", "-t", "reference"],
        4,
        ["keeps state: last", "example_sequence"],
    ),
}


def listing(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if "__pycache__" not in p.parts}


@pytest.mark.parametrize("case", CASES)
def test_bad_export(case: str, edgex: Edgex, tmp_path: Path) -> None:
    content, arguments, exit_code, sentences = CASES[case]
    (tmp_path / "notes.txt").write_text("not a model")
    if content is not None:
        (tmp_path / "model.py").write_text(content)
    before = listing(tmp_path)
    result = edgex("export", *arguments, "-o", "out/deep")
    assert result.returncode == exit_code, result.stderr
    for sentence in sentences:
        assert sentence in result.stderr, result.stderr
    assert "Traceback" not in result.stderr
    assert listing(tmp_path) == before


def test_the_json_of_a_failure_is_one_document(edgex: Edgex, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("x = (\n")
    result = edgex("export", "model.py", "-t", "reference,onnx-cpu", "--json")
    document = json.loads(result.stdout)
    assert document["schema"] == "edgex.export/2" and document["artifacts"] == []
    assert [failure["target"] for failure in document["failures"]] == ["reference", "onnx-cpu"]
    assert {failure["exit_code"] for failure in document["failures"]} == {result.returncode} == {2}
    assert result.stderr.count("\nerror: ") == 1  # the same cause once


BLOCKED = (
    HEAD
    + '@torch.library.custom_op("edgex_test_bad::twice", mutates_args=())\n'
    + "def twice(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\n\n"
    + "class M(nn.Module):\n    def forward(self, x):\n        if x.sum() > 0:\n            x = x + 1\n"
    + "        x = twice(x)\n        return x * 2 if x.max() > 1 else x\n\n"
    + "model = M().eval()\nexample_inputs = (torch.ones(3),)\n"
)


def test_everything_that_cannot_be_captured_is_named_at_once(edgex: Edgex, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(BLOCKED)
    result = edgex("export", "model.py", "-t", "reference", "--json")
    assert result.returncode == 3
    (failure,) = json.loads(result.stdout)["failures"]
    assert failure["blockers"][0]["where"] == failure["where"] == "model.py:10: if x.sum() > 0:"
    assert [blocker["where"].partition(":")[2] for blocker in failure["blockers"]] == [
        "10: if x.sum() > 0:",
        "13: return x * 2 if x.max() > 1 else x",
        "12: x = twice(x)",
    ]
    assert "the operator edgex_test_bad::twice has no fake kernel" in result.stderr
    assert "torch.library.register_fake" in result.stderr
    assert "and 3:" in result.stderr
    assert result.stderr.count("choose values with torch.where") == 1, "the same workaround is said once"


def test_one_target_failing_does_not_stop_the_others(edgex: Edgex, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        HEAD + "class M(nn.Module):\n    def forward(self, x): return torch.linalg.svdvals(x)\n"
        "def get_model(): return M().eval()\ndef get_args(): return (torch.randn(3, 3),)\n"
    )
    result = edgex("export", "model.py", "-t", "onnx-cpu,reference", "--json")
    document = json.loads(result.stdout)
    assert [artifact["target"] for artifact in document["artifacts"]] == ["reference"]
    (failure,) = document["failures"]
    assert (failure["target"], failure["stage"], failure["exit_code"]) == ("onnx-cpu", "lower", 5)
    assert "svd" in failure["what"] + str(failure["why"]) and "model.py:5" in json.dumps(failure)
    assert result.returncode == 5


def test_an_existing_result_is_kept_without_force(edgex: Edgex, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(LINEAR)
    assert edgex("export", "model.py", "-t", "reference").returncode == 0
    manifest = tmp_path / "model.reference.edgex" / "manifest.json"
    manifest.write_text("{}")
    result = edgex("export", "model.py", "-t", "reference")
    assert result.returncode == 2 and "exists" in result.stderr and "--force" in result.stderr
    assert manifest.read_text() == "{}"
    assert edgex("export", "model.py", "-t", "reference", "--force").returncode == 0
    assert json.loads(manifest.read_text())["status"] == "verified"
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "__pycache__") == [
        "model.py",
        "model.reference.edgex",
    ]


def test_force_does_not_replace_what_is_no_artifact(edgex: Edgex, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(LINEAR)
    precious = tmp_path / "model.reference.edgex"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years of work")
    result = edgex("export", "model.py", "-t", "reference", "--force")
    assert result.returncode == 2 and "not an artifact" in result.stderr
    assert (precious / "thesis.txt").read_text() == "years of work"


def test_a_failed_export_with_force_keeps_the_old_artifact(edgex: Edgex, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(LINEAR)
    assert edgex("export", "model.py", "-t", "reference").returncode == 0
    manifest = (tmp_path / "model.reference.edgex" / "manifest.json").read_bytes()
    (tmp_path / "model.py").write_text(LINEAR.replace("nn.Linear(4, 2)", "nn.Linear(3, 2)"))
    assert edgex("export", "model.py", "-t", "reference", "--force").returncode == 3
    assert (tmp_path / "model.reference.edgex" / "manifest.json").read_bytes() == manifest


def test_the_output_below_a_file_is_refused(edgex: Edgex, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(LINEAR)
    result = edgex("export", "model.py", "-t", "reference", "-o", "model.py/out")
    assert result.returncode == 2 and "is a file" in result.stderr


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs /proc")
def test_a_folder_that_cannot_be_made_is_refused_before_the_model_is_found(edgex: Edgex, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("raise SystemExit('the file was run')\n" + LINEAR)
    for command in (
        ("export", "model.py", "-t", "reference", "-o", "/proc/made/deep"),
        ("export", "model.py", "-t", "reference", "-o", "/proc/made.edgex"),
        ("bisect", "model.py", "-t", "reference", "--repro", "/proc/made"),
    ):
        result = edgex(*command, "--json")
        document = json.loads(result.stdout)
        (failure,) = document.get("failures", [document])
        assert result.returncode == failure["exit_code"] == 6, result.stderr
        assert "/proc" in failure["what"] and "Traceback" not in result.stderr


def test_one_edgex_path_cannot_take_two_targets(edgex: Edgex, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(LINEAR)
    result = edgex("export", "model.py", "-t", "reference,onnx-cpu", "-o", "one.edgex")
    assert result.returncode == 2 and "several targets" in result.stderr


def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    """As an ordinary user; root, who may write everywhere, gives that up for the length of the test."""
    from edgex.errors import ArtifactError
    from edgex.export.packaging.package import resolve_destination, staged

    (tmp_path / "out").mkdir(mode=0o555)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        with (
            pytest.raises(ArtifactError) as caught,
            staged(resolve_destination(tmp_path / "out", "net", "reference", force=False, single=True)),
        ):
            pytest.fail("a folder was made")
    finally:
        if is_root:
            os.seteuid(0)
    assert caught.value.exit_code == 6
    assert "not writable" in caught.value.what or "not accessible" in caught.value.what
    assert list((tmp_path / "out").iterdir()) == []


def test_a_disk_that_refuses_leaves_nothing(tmp_path: Path) -> None:
    """A file size limit of 8 kB makes every larger write fail, as a full disk does."""
    (tmp_path / "model.py").write_text(LINEAR.replace("(4, 2)", "(400, 200)").replace("(1, 4)", "(1, 400)"))
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192));"
        "from edgex.cli.main import main; main(sys.argv[1:])"
    )
    import sys

    result = subprocess.run(
        [sys.executable, "-B", "-c", script, "export", "model.py", "-t", "onnx-cpu", "-o", "out"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 6, result.stderr
    assert "cannot write out/model.onnx-cpu.edgex" in result.stderr and "File too large" in result.stderr
    assert listing(tmp_path) == {"model.py"}


def test_a_model_in_training_mode_is_exported_in_eval_mode_with_a_notice(edgex: Edgex, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        HEAD + "model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))\n"
        "example_inputs = (torch.randn(1, 4),)\n"
    )
    result = edgex("export", "model.py", "-t", "reference")
    assert result.returncode == 0, result.stderr
    assert "training mode" in result.stderr and "Dropout" in result.stderr
