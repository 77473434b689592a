"""`make arm64-check`: samples on Arm64, really executed: XNNPACK's Arm kernels under qemu's user emulation.

    python tests/arm64_check.py [ARTIFACT …]      default: three samples, exported first

For root: in a Debian root for Arm64 (debootstrap, 250 MB, made once), through a real sshd in it: each artifact is
verified with `--device ssh:`, and its bundle's self-test is run there. For others the self-tests are run under qemu
alone. Needs Debian's g++-aarch64-linux-gnu and qemu-user-static, for root also debootstrap, and downloads executorch's
Arm64 wheel (18 MB) once. Times under emulation mean nothing, and none are shown.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

import arm64_root

SAMPLES = ("digits", "keyword_spotter", "decoder")
TOOLS = {"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64-static": "qemu-user-static"}
LIBRARIES = Path("/usr/aarch64-linux-gnu")
ROOT = Path(__file__).parent.parent
WORK = ROOT / ".arm64-check"


def main() -> int:
    """Export, bundle, run; exit code 0 if every golden case passes."""
    tools = TOOLS | (arm64_root.TOOLS if arm64_root.can_be_made() else {})
    missing = sorted({package for tool, package in tools.items() if shutil.which(tool) is None})
    if missing:
        print(f"missing: apt-get install {' '.join(missing)}", file=sys.stderr)
        return 7
    WORK.mkdir(exist_ok=True)
    wheel = _fetch_wheel(WORK / "wheel")
    artifacts = [Path(text).absolute() for text in sys.argv[1:]] or [_export(name) for name in SAMPLES]
    bundles = {artifact: _bundle(artifact, wheel) for artifact in artifacts}
    if arm64_root.can_be_made():
        with arm64_root.arm64_root(WORK / "root") as root, arm64_root.sshd_in(root, WORK / "ssh") as options:
            os.environ["EDGEX_SSH_OPTIONS"] = options
            failed = [a.name for a, bundle in bundles.items() if not (_verifies(a) & _passes_there(bundle, options))]
    else:
        print("not root: the self-tests of bundles under qemu only, no Debian root and no ssh")
        failed = [artifact.name for artifact, bundle in bundles.items() if not _passes_here(bundle)]
    print(f"failed: {', '.join(failed)}" if failed else "all pass")
    return 4 if failed else 0


def _fetch_wheel(folder: Path) -> Path:
    if not list(folder.glob("executorch-*.whl")):
        wanted = f"executorch=={version('executorch').partition('+')[0]}"
        flags = ["--no-deps", "--only-binary=:all:", "--platform", "manylinux_2_28_aarch64", "-d", str(folder)]
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", wanted, *flags], check=True)
    return next(folder.glob("executorch-*.whl"))


def _edgex(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "edgex", *arguments], check=True, stdout=subprocess.DEVNULL)


def _export(name: str) -> Path:
    _edgex("export", str(ROOT / "samples" / f"{name}.py"), "-t", "xnnpack", "-o", str(WORK), "--force")
    return WORK / f"{name}.xnnpack.edgex"


def _bundle(artifact: Path, wheel: Path) -> Path:
    bundle = WORK / f"{artifact.name.partition('.')[0]}-arm64"
    flags = ["--runtime", "linux-aarch64", "--executorch-wheel", str(wheel), "--force"]
    _edgex("bundle", str(artifact), *flags, "-o", str(bundle))
    return bundle


def _verifies(artifact: Path) -> bool:
    """`edgex verify` over ssh: outputs come back, and are judged here."""
    command = [sys.executable, "-m", "edgex", "verify", str(artifact), "--device", "ssh:arm64", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    document = json.loads(done.stdout)
    if "cases" not in document:
        print(f"{artifact.name}: {document}")
        return False
    return _tell(f"{artifact.name}, verified on {document['device']['abi']}", document["cases"], done.returncode)


def _passes_there(bundle: Path, options: str) -> bool:
    """The self-test as a product has it: copied to the machine, and run there."""
    packed = subprocess.run(
        ["tar", "-C", str(bundle.parent), "-cf", "-", bundle.name], stdout=subprocess.PIPE, check=True
    )
    script = f'P=$(mktemp -d); tar -C "$P" -xf - && "$P"/{bundle.name}/run.sh; C=$?; rm -rf "$P"; exit $C'
    done = subprocess.run(
        ["ssh", *options.split(), "arm64", script], input=packed.stdout, capture_output=True, check=False
    )
    return _judge(f"{bundle.name}/run.sh over ssh", done.stdout.decode(), done.stderr.decode(), done.returncode)


def _passes_here(bundle: Path) -> bool:
    """The self-test with the runner under emulation, without a root."""
    script = (bundle / "run.sh").read_text().replace("exec ./", f"exec qemu-aarch64-static -L {LIBRARIES} ./")
    script = script.replace('cd "$(dirname "$0")"', f"cd '{bundle}'")
    environment = {**os.environ, "QEMU_CPU": arm64_root.CPU}
    done = subprocess.run(["/bin/sh", "-c", script], env=environment, capture_output=True, text=True, check=False)
    return _judge(f"{bundle.name}/run.sh under qemu", done.stdout, done.stderr, done.returncode)


def _judge(name: str, output: str, errors: str, code: int) -> bool:
    cases = [line for line in map(json.loads, output.splitlines()) if line["event"] == "case"]
    if code not in (0, 4):
        print(output[-2000:], errors[-2000:])
    return _tell(name, cases, code)


def _tell(name: str, cases: Iterable[dict[str, object]], code: int) -> bool:
    cases = list(cases)
    bad = [case for case in cases if case["verdict"] == "fail"]
    print(f"{name}: {len(cases) - len(bad)} of {len(cases)} verdicts do not fail, exit code {code}", flush=True)
    for case in bad:
        print(f"  {case}")
    return code == 0 and bool(cases)


if __name__ == "__main__":
    sys.exit(main())
