"""A third-party target in a package of its own: installed, listed, exported to, proved, run; and a broken one."""

import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from doc_blocks import install_package

from edgex import plugin
from edgex.delegates.registry import get_delegate
from edgex.errors import TargetUnavailable
from edgex.export.source.memory.check import peak_factor

PLUGIN = Path(__file__).parent / "plugins" / "edgex-numpy-plugin"

MODEL = """
import torch
from torch import nn


def get_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3), nn.Tanh())


def get_args():
    return (torch.randn(4, 6, generator=torch.Generator().manual_seed(1)),)
"""

SIGMOID_MODEL = """
import torch
from torch import nn


def get_model():
    return nn.Sequential(nn.Linear(6, 8), nn.Sigmoid())


def get_args():
    return (torch.randn(4, 6),)
"""

SORTING_MODEL = """
import torch
from torch import nn


class Sorter(nn.Module):
    def forward(self, x):
        return torch.sort(x * 2.0).values


def get_model():
    return Sorter()


def get_args():
    return (torch.randn(4, 6),)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that `pip install --target` filled; built from a copy, so that the source stays clean."""
    source = tmp_path_factory.mktemp("source") / "plugin"
    shutil.copytree(PLUGIN, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    target = tmp_path_factory.mktemp("site")
    install_package(source, target)
    return target


@pytest.fixture(scope="module")
def artifact(installed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    (folder / "tiny.py").write_text(MODEL)
    done = edgex("export", "tiny.py", "-t", "numpy", "--json", path=installed, cwd=folder)
    assert done.returncode == 0, done.stderr
    (exported,) = json.loads(done.stdout)["artifacts"]
    assert exported["status"] == "verified"
    assert exported["verification"]["passed"] is True
    assert exported["delegation"]["fraction"] == 1.0
    return folder / "tiny.numpy.edgex"


def with_packages(*folders):
    """The environment of a process that finds these packages first, and edgex where this one does."""
    folders = [*folders, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}


def edgex(*arguments, path, cwd=None):
    """Run the command line with a folder of packages in front of the installed ones."""
    env = with_packages(*(path if isinstance(path, list) else [path]))
    command = [sys.executable, "-m", "edgex", *arguments]
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=300)


def listed_targets(**kwargs):
    done = edgex("targets", "--json", **kwargs)
    assert done.returncode == 0, done.stderr
    return {target["name"]: target for target in json.loads(done.stdout)["targets"]}


def test_it_is_listed_beside_the_built_in_targets(installed):
    targets = listed_targets(path=installed)
    assert {"numpy", "onnx-cpu", "reference", "xnnpack"} <= targets.keys()
    assert targets["numpy"]["available"] is True
    assert targets["numpy"]["precisions"] == ["fp32"]


def test_without_it_the_target_is_unknown(tmp_path):
    (tmp_path / "tiny.py").write_text(MODEL)
    done = edgex("export", "tiny.py", "-t", "numpy", path=tmp_path, cwd=tmp_path)
    assert done.returncode == 2
    assert "unknown target 'numpy'" in done.stderr
    assert not (tmp_path / "tiny.numpy.edgex").exists()


def test_the_artifact_holds_its_own_files(artifact):
    files = {entry["path"] for entry in json.loads((artifact / "manifest.json").read_text())["files"]}
    assert {"program.json", "weights.safetensors"} <= files


def test_the_command_line_runs_it(installed, artifact):
    done = edgex("run", str(artifact), "--json", path=installed)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["executed_on"] == "numpy: interpreter"
    assert document["outputs"][0]["shape"] == [4, 3]


def test_load_finds_the_engine_and_needs_no_torch(installed, artifact):
    code = f"""
import sys
import numpy as np
import edgex
with edgex.load({str(artifact)!r}) as session:
    (y,) = session.run(np.ones((4, 6), np.float32))
assert y.shape == (4, 3) and np.ptp(y[0]) > 1e-3, y
heavy = [name for name in sys.modules if name.split(".")[0] in ("torch", "executorch", "onnx", "onnxruntime")]
assert not heavy, heavy
assert "edgex_numpy.delegate" not in sys.modules
"""
    env = with_packages(installed)
    subprocess.run([sys.executable, "-c", code], env=env, check=True)


def test_without_the_plugin_load_says_what_is_missing(artifact, tmp_path):
    done = edgex("run", str(artifact), path=tmp_path)
    assert done.returncode == 7
    assert "no engine named 'numpy' is installed" in done.stderr


def test_an_operator_it_lacks_is_named_with_its_line(installed, tmp_path):
    (tmp_path / "sorter.py").write_text(SORTING_MODEL)
    done = edgex("export", "sorter.py", "-t", "numpy", path=installed, cwd=tmp_path)
    assert done.returncode == 5, done.stderr
    assert "aten.sort.default" in done.stderr
    assert "sorter.py:8" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "__pycache__") == ["sorter.py"]


def test_its_workaround_reaches_the_answer_and_the_error(installed, tmp_path):
    (tmp_path / "squash.py").write_text(SIGMOID_MODEL)
    done = edgex("why", "squash.py", "-t", "numpy", "--json", path=installed, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (target,) = json.loads(done.stdout)["targets"]
    (fallback,) = target["delegation"]["fallbacks"]
    assert fallback["workaround"] == "write 0.5 * torch.tanh(0.5 * x) + 0.5"
    done = edgex("export", "squash.py", "-t", "numpy", path=installed, cwd=tmp_path)
    assert done.returncode == 5
    assert "fix: write 0.5 * torch.tanh(0.5 * x) + 0.5" in done.stderr


def test_its_tolerance_is_what_the_artifact_is_held_to(artifact):
    verification = json.loads((artifact / "manifest.json").read_text())["verification"]
    assert verification["tolerance"] == {"min_sqnr_db": 100.0, "atol": 1e-5, "rtol": 1e-5, "min_equal": 1.0}


def test_its_memory_factor_is_what_an_export_is_refused_by(installed, monkeypatch):
    monkeypatch.syspath_prepend(installed)
    numpy_target = importlib.import_module("edgex_numpy.delegate").NumpyDelegate()
    assert peak_factor([numpy_target]) == 3.0


def test_it_imports_edgex_plugin_alone():
    wrong = [
        f"{path.name}: {line}"
        for path in PLUGIN.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.match(r"\s*(from|import) edgex\b", line) and not line.startswith("from edgex.plugin import ")
    ]
    assert not wrong


def test_the_surface_for_authors():
    public = {name for name in vars(plugin) if not name.startswith("_")} - {"annotations"}
    assert set(plugin.__all__) == public
    for name in public - {"REASON_CODES", "ReasonCode", "Quantizer"}:
        text = getattr(plugin, name).__doc__ or ""
        assert text.strip(), f"{name} has no docstring"
        assert not text.startswith(f"{name}("), f"{name} has the docstring that dataclass makes"
    # What plug-ins are made of does not go.
    assert {"Delegate", "CapturedProgram", "LoweredModule", "Fallback", "PartitionPlan"} <= public
    assert {"Availability", "Engine", "EngineSettings", "LoadSeconds", "Runner", "Session"} <= public


def test_what_the_contracts_mention_is_part_of_the_surface():
    contracts = (plugin.Delegate, plugin.LoweredModule, plugin.CapturedProgram, plugin.Engine, plugin.Runner)
    code = "\n".join(re.sub(r'"""[\s\S]*?"""', "", inspect.getsource(contract)) for contract in contracts)
    types = set(re.findall(r"\b[A-Z][a-z]\w+", code)) - {"Any", "Callable", "Mapping", "Path", "Protocol", "Sequence"}
    assert types - {"ExportedProgram", "None", "True"} <= set(plugin.__all__)


def test_authors_import_neither_torch_nor_an_engine():
    code = "import sys, edgex.plugin; print({'torch', 'executorch', 'onnx', 'onnxruntime'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_what_users_import_stays_small():
    import edgex

    assert len(edgex.__all__) <= 12
    assert all(getattr(edgex, name) is not None for name in edgex.__all__)


def add_plugin(site, name, code):
    """A package `edgex-NAME` in a folder: a module `edgex_NAME` whose `Delegate` is registered as NAME."""
    info = site / f"edgex_{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: edgex-{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[edgex.delegates]\n{name} = edgex_{name}:Delegate\n")
    (site / f"edgex_{name}.py").write_text(code)
    return site


RAISES = """
from edgex_numpy.delegate import NumpyDelegate


class Delegate(NumpyDelegate):
    name = "raising"

    def lower(self, program, options):
        raise KeyError("boom")
"""

FORGETS = """
import dataclasses
from edgex_numpy.delegate import NumpyDelegate


class Delegate(NumpyDelegate):
    name = "forgetful"

    def lower(self, program, options):
        lowered = super().lower(program, options)
        return dataclasses.replace(lowered, files=(*lowered.files, "kernels.bin"))
"""


def test_what_a_plugin_raises_is_an_error_of_its_target_alone(installed, tmp_path):
    site = add_plugin(add_plugin(tmp_path / "site", "raising", RAISES), "forgetful", FORGETS)
    (tmp_path / "tiny.py").write_text(MODEL)
    arguments = ("export", "tiny.py", "-t", "raising,forgetful,numpy", "--json", "-v")
    done = edgex(*arguments, path=[site, installed], cwd=tmp_path)
    assert done.returncode == 5, done.stderr
    document = json.loads(done.stdout)
    assert [artifact["target"] for artifact in document["artifacts"]] == ["numpy"]
    raised, forgotten = document["failures"]
    assert raised["what"] == "target 'raising': the plug-in edgex-raising failed in lower"
    assert raised["where"] == f"{site}/edgex_raising.py:9"
    assert raised["why"] == "KeyError: 'boom'"
    assert "Traceback" in done.stderr and 'raise KeyError("boom")' in done.stderr
    assert forgotten["what"] == "target 'forgetful': the plug-in edgex-forgetful failed in write"
    assert forgotten["why"] == "LoweredModule.files names kernels.bin, and write did not write it"
    made = sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__")
    assert made == ["site", "tiny.numpy.edgex", "tiny.py"]


SHAKY = """
from edgex_numpy.delegate import NumpyDelegate


class Delegate(NumpyDelegate):
    name = engine = "shaky"


class Engine:
    def availability(self):
        raise RuntimeError("no licence")
"""


def test_a_delegate_that_lacks_members_and_an_engine_that_raises_are_rows_of_targets(installed, tmp_path):
    site = add_plugin(tmp_path / "site", "bare", "class Delegate:\n    name = engine = 'bare'\n")
    add_plugin(site, "shaky", SHAKY)
    with (site / "edgex_shaky-1.0.dist-info" / "entry_points.txt").open("a") as file:
        file.write("[edgex.engines]\nshaky = edgex_shaky:Engine\n")
    targets = listed_targets(path=[site, installed])
    bare, shaky = targets["bare"], targets["shaky"]
    assert bare["available"] is shaky["available"] is False and targets["numpy"]["available"]
    assert "the delegate of edgex-bare lacks options_type, precisions" in bare["reason"]
    assert "the plug-in edgex-shaky failed in availability" in shaky["reason"]
    assert "RuntimeError: no licence" in shaky["reason"] and "edgex-shaky" in shaky["fix"]


CORRECT = "correct edgex_partial, or pip uninstall edgex-partial"


@pytest.mark.parametrize(
    ("metadata", "record", "fix"),
    [
        ("", "edgex_partial.py,,\n", CORRECT),
        ("", "edgex_partial.py,,\nedgex_lost.py,,\n", "pip install --force-reinstall edgex-partial"),
        ("Requires-Dist: a-library-not-here>=2\n", "", "pip install 'a-library-not-here>=2'"),
        (
            "Requires-Dist: a-library-not-here; extra == 'x'\n",
            "",
            "correct edgex_partial, or pip uninstall edgex-partial",
        ),
    ],
)
def test_the_fix_of_a_broken_plugin_is_what_can_help(tmp_path, monkeypatch, metadata, record, fix):
    info = add_plugin(tmp_path, "partial", "import edgex_lost\n") / "edgex_partial-1.0.dist-info"
    with (info / "METADATA").open("a") as file:
        file.write(metadata)
    (info / "RECORD").write_text(record)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TargetUnavailable) as caught:
        get_delegate("partial")
    assert caught.value.fix == fix


def test_a_broken_plugin_is_reported_and_breaks_nothing_else(installed, tmp_path):
    broken = add_plugin(tmp_path / "site", "broken", "import a_library_that_is_not_here\n")
    targets = listed_targets(path=[broken, installed])
    assert targets["broken"]["available"] is False
    assert "a_library_that_is_not_here" in targets["broken"]["reason"]
    assert targets["broken"]["fix"] == "correct edgex_broken, or pip uninstall edgex-broken"
    doctor = edgex("doctor", path=[broken, installed])
    assert doctor.returncode == 7 and "nothing is broken" not in doctor.stdout
    assert "a_library_that_is_not_here" in doctor.stdout
    assert targets["numpy"]["available"] is True
    (tmp_path / "tiny.py").write_text(MODEL)
    done = edgex("export", "tiny.py", "-t", "broken,numpy", path=[broken, installed], cwd=tmp_path)
    assert done.returncode == 7
    assert "a_library_that_is_not_here" in done.stderr
