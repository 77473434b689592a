"""A plan is checked before anything is slow, and comes to the same jobs every time."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from sweep_support import write_models

from edgex.delegates.registry import delegate_names
from edgex.errors import UsageError
from edgex.export.sweep.plan import GIB, SweepPlan, list_jobs, name_models, parse_bytes
from edgex.export.sweep.plan_file import find_models, read_plan_file

PLAN = """\
models = ["*.py", { model = "sub/good.py", name = "second", input_shapes = { x = [1, 8] } }]
targets = ["xnnpack", "onnx-cpu"]
recipes = ["none", "int8-dynamic"]
calibration = "data.npz"
options = { "xnnpack.workspace" = true }

[sweep]
workers = 3
timeout = 60
memory = "2 GiB"
retries = 2
measure = false
turns = true
threads = 2
artifacts = "kept"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_models(tmp_path, ("good", "broken"))
    (tmp_path / "sub").mkdir()
    write_models(tmp_path / "sub", ("good",))
    return tmp_path


def test_a_plan_file_says_what_and_how(folder: Path) -> None:
    (folder / "plan.toml").write_text(PLAN)
    plan = read_plan_file(folder / "plan.toml")
    assert [(model.spec, model.name) for model in plan.models] == [
        ("broken.py", "broken"), ("good.py", "good"), ("sub/good.py", "second"),
    ]  # fmt: skip
    assert plan.models[2].input_shapes == {"x": (1, 8)} and plan.targets == ("xnnpack", "onnx-cpu")
    assert (plan.limits.seconds, plan.limits.memory_bytes, plan.limits.retries) == (60.0, 2 * GIB, 2)
    assert (plan.workers, plan.measure, plan.executor, plan.turns, plan.threads) == (3, False, "local", True, 2)
    assert plan.asked()["turns"] is True and "turns" not in replace(plan, turns=False).asked()
    assert plan.artifacts == str(folder / "kept")
    assert plan.calibration == str(folder / "data.npz") and dict(plan.options) == {"xnnpack.workspace": True}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('modles = ["good.py"]', "unknown key 'modles'.*did you mean 'models'"),
        ('models = ["good.py"]\n[sweep]\nworkrs = 2', "unknown key 'workrs'.*did you mean 'workers'"),
        ('models = [{ model = "good.py", nam = "x" }]', "unknown key 'nam'.*did you mean 'name'"),
        ('models = [{ name = "x" }]', "a model is a text or"),
        ('models = ["none/*.py"]', "no .py or .pt2 file"),
        ('models = ["good.py"]\ntargets = "xnnpack"', "targets is a list, not 'xnnpack'"),
        ('models = ["good.py"]\n[sweep]\nworkers = true', "workers is a whole number, not True"),
        ('models = ["good.py"]\n[sweep]\nmemory = "much"', "'much' is no amount of memory"),
        ("models = [", "is no plan"),
    ],
)
def test_what_is_wrong_in_a_plan_is_named(folder: Path, text: str, words: str) -> None:
    (folder / "plan.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_plan_file(folder / "plan.toml")
    assert re.search(words, str(caught.value), re.DOTALL), str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"models": ()}, "no model to sweep over"),
        ({"targets": ("xnpack",)}, "unknown target 'xnpack'"),
        ({"recipes": ("int9",)}, "int9"),
        ({"executor": "rey"}, "unknown executor 'rey'"),
        ({"devices": ("adbx:1",)}, "no such kind of device"),
        ({"devices": ("here", "here")}, "given twice"),
        ({"workers": 0}, "1 or more"),
        ({"threads": 0}, "1 or more"),
        ({"turns": True, "runs": 9}, "exclude each other"),
        ({"models": name_models(["gone.py"])}, "no such file"),
    ],
)
def test_what_cannot_be_is_refused_at_once(folder: Path, changes: dict, words: str) -> None:
    asked = {"models": name_models(["good.py"]), "targets": ("xnnpack",), "folder": folder, **changes}
    with pytest.raises(UsageError, match=words):
        list_jobs(SweepPlan(**asked))


def test_jobs_are_every_combination_in_turns_of_models(folder: Path) -> None:
    models = name_models(["good.py", "sub/good.py"])
    assert [model.name for model in models] == ["good.py", "sub/good.py"]  # NAME alone would be the same
    assert models[1].file_name == "sub-good.py"
    devices = ("here", "ssh:pi@box")
    plan = SweepPlan(models, ("xnnpack", "onnx-cpu"), ("fp32", "bf16"), ("none", "int8"), devices, folder=folder)
    jobs = list_jobs(plan)
    # xnnpack takes no bf16, onnx-cpu neither.
    assert len(jobs.possible) == 2 * 2 * 2 * 2 and len(jobs.refused) == 2 * 2 * 2
    assert len({job.id for job in jobs.possible}) == len(jobs.possible)
    assert [job.id for job in list_jobs(plan).possible] == [job.id for job in jobs.possible]
    assert [job.model.name for job in jobs.possible[:4]] == ["good.py", "good.py", "sub/good.py", "sub/good.py"]
    # Without measurements there is nothing for devices to do.
    assert len(list_jobs(SweepPlan(models, ("xnnpack",), devices=devices, measure=False, folder=folder)).possible) == 2
    assert set(delegate_names()) >= {job.candidate.target for job in jobs.possible}


def test_a_model_stands_once(folder: Path) -> None:
    assert find_models(["good.py", "*.py"], folder) == ["good.py", "broken.py"]
    with pytest.raises(UsageError, match="given twice"):
        name_models(["good.py", "good.py"])


def test_amounts_of_memory() -> None:
    texts = ("4 GiB", "500MB", "1024", "1.5 kib")
    assert [parse_bytes(text) for text in texts] == [4 * GIB, 500_000_000, 1024, 1536]
