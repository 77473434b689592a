"""An environment without any engine: edgex still starts, and says what is missing and how to get it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import distribution
from pathlib import Path

import pytest

# What edgex itself depends on, by the names of their folders and files in site-packages.
NEEDED = (
    *("click", "numpy", "numpy.libs", "psutil", "platformdirs", "packaging"),
    *("rich", "pygments", "markdown_it", "mdurl", "safetensors", "jinja2", "markupsafe"),
)
RUN_ONNX = ("onnxruntime", "flatbuffers", "google", "PIL", "pillow.libs")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line in a virtual environment that holds edgex and its own dependencies, and no engine."""
    return make_environment(tmp_path_factory.mktemp("bare"), NEEDED)


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The same with what the extras `run-onnx` and `images` bring: ONNX Runtime and Pillow, and no torch."""
    return make_environment(tmp_path_factory.mktemp("light"), (*NEEDED, *RUN_ONNX), ("onnxruntime", "pillow"))


def make_environment(
    folder: Path, modules: Sequence[str], distributions: Sequence[str] = ()
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line in a virtual environment of these modules of this one, and of these distributions' metadata."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    here = Path(str(distribution("click").locate_file("")))
    for name in modules:
        if (here / name).exists():
            (site / name).symlink_to(here / name)
    metadata = Path(str(distribution("edgex-toolchain").locate_file("")))
    for info in metadata.glob("edgex_toolchain-*.dist-info"):
        (site / info.name).symlink_to(info)
    for name in distributions:
        for info in here.glob(f"{name}-*.dist-info"):
            (site / info.name).symlink_to(info)
    import edgex

    (site / "edgex").symlink_to(Path(edgex.__file__).parent)

    def run(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        command = [str(folder / "venv" / "bin" / "python"), "-m", "edgex", *args]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)

    return run


def test_help_and_targets_work_without_engines(bare: Callable, tmp_path: Path) -> None:
    assert bare("--help", cwd=tmp_path).returncode == 0
    document = json.loads(bare("targets", "--json", cwd=tmp_path).stdout)
    assert {target["name"] for target in document["targets"]} == {
        "aoti",
        "coreai",
        "litert",
        "onednn",
        "onnx-cpu",
        "onnx-qnn",
        "onnx-rocm",
        "openvino",
        "reference",
        "xnnpack",
    }
    for target in document["targets"]:
        assert target["available"] is False and "not installed" in target["reason"]
        assert target["fix"].startswith("pip install"), target


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu", "onnx-rocm", "reference"])
def test_export_names_the_install_command(bare: Callable, tmp_path: Path, target: str) -> None:
    (tmp_path / "model.py").write_text("model = 1\n")
    result = bare("export", "model.py", "-t", target, cwd=tmp_path)
    assert result.returncode == 7, result.stderr
    assert "not installed" in result.stderr and "pip install" in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["model.py"]


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu", "reference"])
def test_run_names_the_install_command_and_inspect_works(
    bare: Callable, tmp_path: Path, target: str, exported: Callable[[str, str], Path]
) -> None:
    artifact = str(exported("convnet", target))
    assert bare("inspect", artifact, cwd=tmp_path).returncode == 0
    result = bare("run", artifact, cwd=tmp_path)
    assert result.returncode == 7 and "pip install" in result.stderr, result.stderr
    light_install = {"xnnpack": "[run-xnnpack]", "onnx-cpu": "[run-onnx]", "reference": "pip install torch"}
    assert light_install[target] in result.stderr


def test_a_machine_without_torch_runs_verifies_and_profiles(
    light: Callable, tmp_path: Path, exported: Callable[[str, str], Path]
) -> None:
    from PIL import Image

    Image.linear_gradient("L").save(tmp_path / "photo.png")
    listed = light("targets", cwd=tmp_path).stdout
    assert re.search(r"onnx-cpu +runs only", listed) and re.search(r"xnnpack +no", listed), listed
    assert "onnx-cpu cannot export here; its artifacts run:" in listed and "xnnpack cannot run here:" in listed
    artifact = str(exported("convnet", "onnx-cpu"))
    for arguments in (
        ("run", artifact, "-i", "x=photo.png", "--image", "x:0.5,0.5,NCHW"),
        ("verify", artifact),
        ("profile", artifact, "--runs", "20", "--warmup", "5", "-o", "page.html"),
    ):
        done = light(*arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").stat().st_size > 10_000
    (tmp_path / "model.py").write_text("model = 1\n")
    refused = light("export", "model.py", "-t", "onnx-cpu", cwd=tmp_path)
    assert refused.returncode == 7
    assert "pip install 'edgex-toolchain[onnx]'" in refused.stderr
