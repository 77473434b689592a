"""`make wheel-check`: install the built wheel with all it depends on into a fresh environment; export and run there."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORK = ROOT / ".wheel-check"


def main():
    """Stops at the first command that fails."""
    shutil.rmtree(WORK, ignore_errors=True)
    source = WORK / "source"
    hidden = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "demo-output", "*.edgex")
    shutil.copytree(ROOT, source, symlinks=True, ignore=hidden)
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", WORK / "dist", source)
    (wheel,) = (WORK / "dist").glob("*.whl")
    run(sys.executable, "-m", "venv", WORK / "venv")
    binaries = WORK / "venv" / "bin"
    wanted = f"{wheel}[xnnpack,onnx,samples]"
    run(binaries / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wanted)
    elsewhere = WORK / "elsewhere"
    elsewhere.mkdir()
    run(binaries / "edgex", "targets", cwd=elsewhere)
    run(binaries / "edgex", "export", "edgex.samples.digits:get_model", "-t", "xnnpack,onnx-cpu", cwd=elsewhere)
    artifacts = sorted(elsewhere.glob("*.edgex"))
    assert len(artifacts) == 2, artifacts
    for artifact in artifacts:
        run(binaries / "edgex", "run", artifact.name, cwd=elsewhere)
    print("wheel-check: installed, exported and ran")


def run(*command, cwd=WORK):
    """Show and run one command."""
    words = [str(word) for word in command]
    print("$", " ".join(words), flush=True)
    subprocess.run(words, cwd=cwd, check=True)


if __name__ == "__main__":
    main()
