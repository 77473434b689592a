"""Quantized artifacts on devices: each case is judged by the tolerance of its own reference, as it is here."""

from __future__ import annotations

import dataclasses
import json
import subprocess

import numpy as np
import pytest
from device_support import needs_compiler

from edgex.runtime.artifact.artifact import Artifact, hash_file, open_artifact
from edgex.runtime.artifact.golden import Case, Step, read_golden, write_golden
from edgex.runtime.artifact.manifest import FileEntry
from edgex.runtime.execute.address import open_executor
from edgex.runtime.execute.kit.bundle import write_bundle
from edgex.runtime.execute.kit.kit import this_machine
from edgex.runtime.execute.verification import verify
from edgex.runtime.session.numerics import Tolerance

pytestmark = needs_compiler

ORDINARY, QUANTIZED = Tolerance(60.0, rtol=0.01), Tolerance(15.0, min_equal=0.9)


def _off_by(case: Case, decibel: float, **changes) -> Case:
    """The case with outputs that are moved, so that the right answer has this SQNR."""
    steps = []
    for step in case.steps:
        moved = {}
        for name, array in step.outputs.items():
            noise = np.sqrt(np.mean(np.square(array, dtype=np.float64))) * 10 ** (-decibel / 20)
            signs = np.where(np.arange(array.size).reshape(array.shape) % 2, 1.0, -1.0)
            moved[name] = (array + noise * signs).astype(array.dtype)
        steps.append(Step(step.inputs, moved))
    return dataclasses.replace(case, steps=tuple(steps), **changes)


def _scaled(case: Case, factor: float, **changes) -> Case:
    """The case with outputs that are scaled."""
    steps = [Step(step.inputs, {name: array * factor for name, array in step.outputs.items()}) for step in case.steps]
    return dataclasses.replace(case, steps=tuple(steps), **changes)


@pytest.fixture
def artifact(own_copy) -> Artifact:
    """An artifact whose proof is made by hand: eager, then the quantized program, each near and far."""
    path = own_copy("convnet", "xnnpack")
    opened = open_artifact(path)
    example = next(case for case in read_golden(opened) if case.kind == "compare")
    cases = [
        # The first says what is ordinary: a hundred times of what the model answers.
        _scaled(example, 100, name="ordinary"),
        dataclasses.replace(example, name="near eager"),
        _off_by(example, 20, name="far from eager"),
        _off_by(example, -20, name="near for ordinary values", reference="quantized"),
        _off_by(example, -30, name="far for ordinary values", reference="quantized"),
        _off_by(example, -30, name="far, with a limit of its own", reference="quantized", min_sqnr_db=3.2),
        _off_by(example, 30, name="far from eager, with a limit of its own", min_sqnr_db=29.0),
        _scaled(example, 0, name="eager is zero"),
        _scaled(example, 0, name="quantized is zero", reference="quantized"),
    ]
    for old in (path / "golden").iterdir():
        old.unlink()
    (path / "golden").rmdir()
    write_golden(path, cases)
    manifest = opened.manifest
    kept = [entry for entry in manifest.files if not entry.path.startswith("golden/")]
    found = sorted((path / "golden").iterdir())
    entries = [FileEntry(f"golden/{file.name}", file.stat().st_size, hash_file(file)) for file in found]
    verification = {**(manifest.verification or {}), "allow_inconclusive": True}
    verification |= {"tolerance": ORDINARY.to_json(), "quantized_tolerance": QUANTIZED.to_json()}
    changed = dataclasses.replace(manifest, files=(*kept, *entries), verification=verification)
    (path / "manifest.json").write_text(changed.dumps(), encoding="utf-8")
    return open_artifact(path)


# 100 times are 40 dB: an error of -20 dB beside the answer is one of 20 dB beside ordinary values.
EXPECTED = {
    "ordinary": "fail",
    "near eager": "pass",
    "far from eager": "fail",
    "near for ordinary values": "pass",
    "far for ordinary values": "fail",
    "far, with a limit of its own": "pass",
    "far from eager, with a limit of its own": "pass",
    "eager is zero": "fail",
    "quantized is zero": "inconclusive",
}


def test_the_self_test_judges_as_edgex_does(artifact: Artifact, tmp_path) -> None:
    bundle = write_bundle(artifact, f"linux-{this_machine()}", tmp_path / "bundle", force=False)
    done = subprocess.run([bundle.path / "run.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stdout + done.stderr
    found = [line for line in map(json.loads, done.stdout.splitlines()) if line["event"] == "case"]
    assert {line["name"]: line["verdict"] for line in found} == EXPECTED
    references = {line["name"]: line["reference"] for line in found}
    assert references == {case.name: case.reference for case in read_golden(artifact)}
    note = json.loads((bundle.path / "bundle.json").read_text())
    assert (note["tolerance"], note["quantized_tolerance"]) == (ORDINARY.to_json(), QUANTIZED.to_json())
    with open_executor("local-native") as device:
        verification, _ = verify(device, artifact)
    assert {case.name: case.verdict for case in verification.cases} == EXPECTED
    for ours, theirs in zip(verification.cases, found, strict=True):
        assert ours.sqnr_db == (None if theirs["sqnr_db"] is None else pytest.approx(theirs["sqnr_db"], rel=1e-6))


def test_the_runner_says_what_is_missing(artifact: Artifact, tmp_path) -> None:
    folder = write_bundle(artifact, f"linux-{this_machine()}", tmp_path / "bundle", force=False).path
    runner = [str(folder / "edgex-runner"), "--model", "m", "--inputs", "i"]
    for flags, words in (
        (["--case", "quantized:1:x", "--expected", "e"], "--quantized-min-sqnr is missing"),
        (["--case", "expect:1:x"], "--expected is missing"),
        (["--case", "guess:1:x"], "the kind is run, expect, quantized or refuse"),
        (["--case", "quantized@few:1:x"], "expected a number"),
        (["--case", "refuse@3:1:x"], "nothing is compared"),
        (["--quantized-min-sqnr", "few"], "expected a number"),
        (["--quantized-max-sqnr", "1"], "unknown flag"),
    ):
        done = subprocess.run([*runner, *flags], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and words in done.stdout
