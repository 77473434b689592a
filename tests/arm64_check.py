"""`make arm64-check`: samples in bundles for Arm64, really executed: XNNPACK's Arm kernels under qemu's user emulation.

Needs Debian's g++-aarch64-linux-gnu and qemu-user-static, and downloads executorch's Arm64 wheel (18 MB) once. Times
under emulation mean nothing, and none are shown.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

SAMPLES = ("digits", "keyword_spotter", "decoder")
TOOLS = {"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64-static": "qemu-user-static"}
LIBRARIES = Path("/usr/aarch64-linux-gnu")
ROOT = Path(__file__).parent.parent
WORK = ROOT / ".arm64-check"


def main() -> int:
    """Export, bundle, run; exit code 0 if every golden case passes."""
    missing = sorted(package for tool, package in TOOLS.items() if shutil.which(tool) is None)
    if missing:
        print(f"missing: apt-get install {' '.join(missing)}", file=sys.stderr)
        return 7
    wheel = _fetch_wheel(WORK / "wheel")
    failed = []
    for name in SAMPLES:
        _edgex("export", str(ROOT / "samples" / f"{name}.py"), "-t", "xnnpack", "-o", str(WORK), "--force")
        bundle = WORK / f"{name}-arm64"
        artifact = str(WORK / f"{name}.xnnpack.edgex")
        flags = ["--runtime", "linux-aarch64", "--executorch-wheel", str(wheel), "--force"]
        _edgex("bundle", artifact, *flags, "-o", str(bundle))
        if not _passes(name, bundle):
            failed.append(name)
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


def _passes(name: str, bundle: Path) -> bool:
    """Run the self-test with the runner under emulation."""
    script = (bundle / "run.sh").read_text().replace("exec ./", f"exec qemu-aarch64-static -L {LIBRARIES} ./")
    script = script.replace('cd "$(dirname "$0")"', f"cd '{bundle}'")
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False)
    cases = [line for line in map(json.loads, done.stdout.splitlines()) if line["event"] == "case"]
    bad = [case for case in cases if case["verdict"] == "fail"]
    print(f"{name}: {len(cases) - len(bad)} of {len(cases)} verdicts do not fail, exit code {done.returncode}")
    for case in bad:
        print(f"  {case}")
    if done.returncode not in (0, 4):
        print(done.stdout[-2000:], done.stderr[-2000:])
    return done.returncode == 0 and bool(cases)


if __name__ == "__main__":
    sys.exit(main())
