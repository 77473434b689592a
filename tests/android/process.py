"""Programs that a check runs: a failure ends it, with what was printed."""

import os
import subprocess
import sys


def run(*command, cwd=None, env=None):
    """Run, and end the check with what was printed if it fails."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"failed: {' '.join(map(str, command))[:300]}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}")
    return done.stdout + done.stderr


def export(source, target, folder, *flags):
    """The artifact of a model's file in a folder, made where it is not there yet."""
    made = folder / f"{source.stem}.{target}.edgex"
    if not made.is_dir():
        run(sys.executable, "-m", "edgex", "export", source, "-t", target, "-o", folder, *flags)
    return made


def require(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def join(paths):
    return os.pathsep.join(str(path) for path in paths)
