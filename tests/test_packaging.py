"""The built wheel: what is in it, that the sdist makes the same one, and that it works away from the checkout."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
from report_support import make_report

import edgex
from edgex.runtime.engines.onednn.plugin import OneDnnPlugin

ROOT = Path(__file__).parent.parent
FOLDERS = {"export": "export", "delegates": "delegates", "runtime": "runtime_py", "samples": "samples"}
NOT_SOURCE = (".*", "build", "dist", "*.egg-info", "__pycache__", "demo-output", "*.edgex")

MODEL = """
import torch
from torch import nn


def get_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def get_args():
    return (torch.randn(4, 6, generator=torch.Generator().manual_seed(1)),)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(source, wheel, wheel made from the sdist), built from a copy of the checkout, which stays as it is."""
    source = tmp_path_factory.mktemp("source") / "edgex"
    shutil.copytree(ROOT, source, symlinks=True, ignore=shutil.ignore_patterns(*NOT_SOURCE))
    out = tmp_path_factory.mktemp("dist")
    build(source, out, "--wheel", "--sdist")
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    unpacked = tmp_path_factory.mktemp("sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    again = tmp_path_factory.mktemp("again")
    build(next(unpacked.iterdir()), again, "--wheel")
    return source, wheel, next(again.glob("*.whl"))


def build(source, out, *kinds, **variables):
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})
    assert done.returncode == 0, done.stdout + done.stderr


def content(wheel):
    """Name -> bytes of everything in the wheel but its own list of hashes."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


def test_wheel_holds_every_module_as_a_real_file(built):
    source, wheel, _ = built
    found = content(wheel)
    expected = {}
    for name, folder in FOLDERS.items():
        for path in (source / folder).rglob("*.py"):
            expected[f"edgex/{name}/{path.relative_to(source / folder).as_posix()}"] = path
    own = source / "src" / "edgex"
    inside = [path for name in ("cli", "doctor", "explain") for path in (own / name).rglob("*.py")]
    for path in [*own.glob("*.py"), *inside]:
        expected[path.relative_to(source / "src").as_posix()] = path
    assert {"edgex/runtime/session/session.py", "edgex/cli/main.py", "edgex/samples/digits.py"} <= expected.keys()
    assert {name for name in found if name.endswith(".py")} == expected.keys()
    for name, path in expected.items():
        assert found[name] == path.read_bytes(), name
    assert "edgex/py.typed" in found


def test_wheel_holds_what_the_html_report_is_made_of(built):
    source, wheel, _ = built
    found = content(wheel)
    assets = sorted((source / "runtime_py" / "report" / "assets").iterdir())
    assert {"page.html.j2", "style.css", "main.js"} <= {path.name for path in assets}
    for path in assets:
        assert found[f"edgex/runtime/report/assets/{path.name}"] == path.read_bytes()


def test_wheel_holds_nothing_else(built):
    folders = {name.split("/")[0] for name in content(built[1])}
    assert folders == {"edgex", f"edgex_toolchain-{edgex.__version__}.dist-info"}
    with zipfile.ZipFile(built[1]) as archive:
        links = [info.filename for info in archive.infolist() if (info.external_attr >> 16) & 0o170000 == 0o120000]
    assert not links


def test_wheel_describes_itself(built):
    found = content(built[1])
    info = f"edgex_toolchain-{edgex.__version__}.dist-info"
    metadata = found[f"{info}/METADATA"].decode()
    assert "Name: edgex-toolchain\n" in metadata
    assert "License-Expression: BSD-3-Clause\n" in metadata
    assert "Requires-Python: <3.14,>=3.11\n" in metadata
    assert found[f"{info}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
    points = found[f"{info}/entry_points.txt"].decode()
    for line in ("[edgex.delegates]", "[edgex.engines]", "edgex = edgex.cli.entry:main", "xnnpack = edgex.delegates."):
        assert line in points


def test_sdist_makes_the_same_wheel(built):
    _, wheel, again = built
    assert wheel.name == again.name
    assert content(wheel) == content(again)


@pytest.fixture(scope="module")
def elsewhere(built, tmp_path_factory):
    return make_environment(tmp_path_factory.mktemp("venv"), built[1])


def make_environment(folder, wheel):
    """An environment with the wheel and this one's dependencies, but not this checkout; gives its `bin` folder.

    `--system-site-packages` would show the base interpreter's packages, not those of the environment that runs the
    tests; a line in a .pth file shows exactly these. The .pth files *in* the shown folder are not read by Python, so
    the editable install of the checkout stays out.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*command, str(wheel)], check=True)
    own = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    shown = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    Path(own, "dependencies.pth").write_text("".join(f"{path}\n" for path in sorted(shown)))
    return folder / "bin"


def run(*command, cwd, **variables):
    """Run in the other environment, with nothing of this one in the variables."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")} | variables
    return subprocess.run([str(c) for c in command], env=env, cwd=cwd, capture_output=True, text=True, timeout=300)


def test_the_wheel_is_what_is_imported(elsewhere, tmp_path):
    code = "import edgex, edgex.runtime.session.session as s; print(edgex.__file__); print(s.__file__)"
    done = run(elsewhere / "python", "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        assert Path(line).resolve().is_relative_to(elsewhere.parent.resolve()), line


def test_both_doors_open(elsewhere, tmp_path):
    version = run(elsewhere / "edgex", "--version", cwd=tmp_path)
    assert (version.returncode, version.stdout) == (0, f"edgex, version {edgex.__version__}\n"), version.stderr
    help_text = run(elsewhere / "python", "-m", "edgex", "--help", cwd=tmp_path)
    assert help_text.returncode == 0
    assert "export" in help_text.stdout


def test_it_renders_a_page(elsewhere, tmp_path):
    (tmp_path / "saved.json").write_text(make_report(20).dumps(), encoding="utf-8")
    done = run(elsewhere / "edgex", "report", "saved.json", "-o", "page.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "encoder on xnnpack" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("target", ["xnnpack", "onnx-cpu"])
def test_it_exports_and_runs(elsewhere, tmp_path, target):
    (tmp_path / "tiny.py").write_text(MODEL)
    exported = run(elsewhere / "edgex", "export", "tiny.py", "-t", target, "--json", cwd=tmp_path)
    assert exported.returncode == 0, exported.stderr
    assert json.loads(exported.stdout)["artifacts"][0]["status"] == "verified"
    done = run(elsewhere / "edgex", "run", f"tiny.{target}.edgex", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outputs"][0]["shape"] == [4, 3]


@pytest.mark.slow
@pytest.mark.skipif(not OneDnnPlugin().availability().available, reason="onednn is not available")
def test_the_wheel_with_the_backend_needs_no_compiler(built, tmp_path):
    """It is for one platform and every Python; without it, the same machine says what is missing."""
    out = tmp_path / "dist"
    build(built[0], out, "--wheel", EDGEX_PREBUILD_ONEDNN="1")
    (wheel,) = out.glob("*.whl")
    assert wheel.name.endswith(f"-py3-none-linux_{os.uname().machine}.whl")
    more = content(wheel).keys() - content(built[1]).keys()
    assert len(more) == 1, more
    assert more.pop().startswith("edgex/runtime/engines/onednn/prebuilt/libedgex_onednn-executorch-")
    bare = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    (tmp_path / "tiny.py").write_text(MODEL)
    for number, (made, code) in enumerate([(wheel, 0), (built[1], 7)]):
        binaries = make_environment(tmp_path / f"venv{number}", made)
        done = run(binaries / "edgex", "export", "tiny.py", "-t", "onednn", "--force", cwd=tmp_path, **bare)
        assert done.returncode == code, done.stderr
        assert code == 0 or ("no C++ compiler" in done.stderr and "apt-get install g++" in done.stderr), done.stderr
    assert not list((tmp_path / "cache").rglob("*.so"))
