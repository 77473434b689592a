"""Errors of engines as the command line shows them: with the advice of `edgex explain` where it knows a line."""

from __future__ import annotations

import json

import pytest

from edgex.cli.export.export import _show
from edgex.cli.failure import failure_document, report_failure
from edgex.errors import RunError, UsageError, nearest_name, nearest_names
from edgex.explain.search import find_code
from edgex.export.result import ExportReport, Failure
from edgex.runtime.engines.executorch.errors import engine_error

LINES = """\
[op_embedding.cpp:58] Check failed (indices_ptr[i] < weight_height): indices_ptr[0] 99 >= weight.size(0) 10
[method.cpp:1410] KernelCall failed at instruction 0:0 in operator aten::embedding.out: 0x12"""
GATHER = (
    "Non-zero status code returned while running Gather node. Name:'node_embedding' Status Message: indices element "
    "out of data bounds, idx=99 must be within the inclusive range [-10,9]"
)


def fix_of(code: str) -> str:
    return find_code(code)[0].entry.fix


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (engine_error("run", RuntimeError("error: 0x12"), LINES, "a.edgex"), fix_of("index-out-of-range")),
        (RunError("ONNX Runtime failed to run the model", "a.edgex", why=GATHER), fix_of("indices-out-of-bounds")),
        # Nothing is known but the code, or that some node failed.
        (engine_error("run", RuntimeError("error: 0x12"), "error: 0x12", "a.edgex"), fix_of("0x12")),
        (RunError("failed", why=GATHER.partition(" Status")[0]), fix_of("node-failed")),
        # The error's own words are for this very case; no engine speaks; nothing matches.
        (RunError("failed", fix="do this", why=GATHER), "do this"),
        (UsageError("wrong", why=GATHER), None),
        (RunError("failed", why="something else"), None),
    ],
)
def test_the_advice_of_explain_is_the_fix(
    error: RunError | UsageError, fix: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    report_failure(error)
    said = " ".join(capfd.readouterr().err.split())
    assert f"fix: {fix}" in said if fix else "fix:" not in said
    assert failure_document(error)["fix"] == fix


def test_the_failures_of_an_export_have_it_too(capfd: pytest.CaptureFixture[str]) -> None:
    error = RunError("ONNX Runtime failed to run the model", why=GATHER)
    assert _show(
        ExportReport(None, None, failures=(Failure("onnx-cpu", error),)), as_json=True, quiet=True, verbose=False
    )
    (failure,) = json.loads(capfd.readouterr().out)["failures"]
    assert failure["fix"] == fix_of("indices-out-of-bounds")


def test_a_target_is_named_once(capfd: pytest.CaptureFixture[str]) -> None:
    failures = (
        Failure("onnx-cpu", RunError("onnx-cpu: the engine cannot run this model")),
        Failure("xnnpack", RunError("the program needs an operator")),
    )
    _show(ExportReport(None, None, failures=failures), as_json=True, quiet=True, verbose=False)
    said = capfd.readouterr().err
    assert said.startswith("error: onnx-cpu: the engine") and "\nxnnpack:\nerror: the program" in said


TARGETS = ("onednn", "onnx-cpu", "onnx-qnn", "onnx-rocm", "xnnpack")


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("xnpack", TARGETS, ["xnnpack"]),
        ("onxx", TARGETS, ["onnx-cpu", "onnx-qnn", "onnx-rocm"]),  # equally near
        ("rocm", TARGETS, ["onnx-rocm"]),
        ("Image", ["image", "mask"], ["image"]),
        ("shh", ["adb", "ssh"], ["ssh"]),
        ("tracing", ["trace", "threads"], ["trace"]),
        ("input_mask", ["input_ids"], []),
        ("sigmoidd", ["aten.linear.default", "aten.sigmoid.default"], ["aten.sigmoid.default"]),
        ("cat.py", ["bar.py", "dog.py"], []),  # the suffix alone is alike
        ("pixel_values", ["x"], []),
        ("data_x", ["x"], []),
        ("y", ["x"], []),
        ("fp8", ["bf16", "fp16", "fp32"], []),
        ("block", [f"block.{number}" for number in range(9)], []),  # too many to be a hint
        ("", ["x"], []),
    ],
)
def test_only_a_near_name_is_suggested(name: str, known: list[str], meant: list[str]) -> None:
    assert nearest_names(name, known) == meant
    hint = f"did you mean {' or '.join(map(repr, meant))}? " if meant else ""
    assert nearest_name(name, known) == f"{hint}known: {', '.join(sorted(known))}"
