"""What the same costs in another revision of edgex: a Session's call, start-up, exports; processor time, in turns.

`git worktree add ../before COMMIT`, then `python -m benchmarks --only revisions --before ../before`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks.outcome import Goal, Outcome, show_seconds
from benchmarks.processes import ROOT, interleave
from benchmarks.publish import read_commit

NAME = "revisions"
SIDES = ("before", "now")
ROUNDS, QUICK_ROUNDS = 3, 1
TARGETS = ("onnx-cpu", "xnnpack")
MODELS, QUICK_MODELS = ("resnet_small",), ("tiny",)
# What noise of a shared machine leaves undecided is no regression.
MOST_GROWTH = 1.1


def measure(quick: bool, before: Path) -> Outcome:
    """Run every command with both revisions, in turns; interrupted, it keeps the rounds that are whole.

    Args:
        quick: Few rounds and small models.
        before: A checkout of the other revision.
    """
    checkouts = {"before": before.resolve(), "now": ROOT}
    edgex = [sys.executable, "-m", "edgex"]
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = {side: _make_path(checkout, Path(folder) / f"metadata-{side}") for side, checkout in checkouts.items()}
        for side in SIDES:
            tiny = ["benchmarks/models.py:tiny", "-t", ",".join(TARGETS), "-o", str(Path(folder) / side), "-q"]
            _run([*edgex, "export", *tiny], paths[side])

        def run(name: str) -> None:
            what, side = name.rsplit(", ", 1)
            command = [part.replace("SIDE", side) for part in commands[what]]
            seconds, printed = _run(command, paths[side])
            if what.startswith("Session"):
                timed = json.loads(printed.splitlines()[-1])
                seconds = timed["edgex"] - timed["bare"]
            found.setdefault(what, {}).setdefault(side, []).append(seconds)

        commands = _commands(edgex, folder, QUICK_MODELS if quick else MODELS)
        names = [f"{what}, {side}" for what in commands for side in SIDES]
        try:
            interleave(names, QUICK_ROUNDS if quick else ROUNDS, run, NAME)
        except KeyboardInterrupt:
            # What whole rounds gave is as good as it was.
            whole = min(len(found.get(what, {}).get(side, ())) for what in commands for side in SIDES)
            if not whole:
                raise
            found = {what: {side: found[what][side][:whole] for side in SIDES} for what in commands}
    return _describe(found, {"before": read_commit(before), "now": read_commit(ROOT)})


def _commands(edgex: Sequence[str], folder: str, models: Sequence[str]) -> dict[str, list[str]]:
    """What is run with both revisions; `SIDE` stands for which."""
    artifacts = {target: f"{folder}/SIDE/tiny.{target}.edgex" for target in TARGETS}
    session = [sys.executable, "-m", "benchmarks.cost.session_child"]
    exports = {
        f"edgex export of {model} to {target}": [
            *edgex, "export", f"benchmarks/models.py:{model}", "-t", target, "-o", f"{folder}/out-SIDE", "--force", "-q"
        ]
        for model in models
        for target in TARGETS
    }  # fmt: skip
    return {
        **{f"Session on {target} over the bare call": [*session, artifacts[target]] for target in TARGETS},
        "edgex --help": [*edgex, "--help"],
        **{f"edgex run on {target}": [*edgex, "run", artifacts[target]] for target in TARGETS},
        **exports,
    }


def _make_path(checkout: Path, metadata: Path) -> str:
    """What a checkout is imported from: its sources, and metadata of its own, by which its plug-ins are found."""
    metadata.mkdir()
    write = "import sys; from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", write, str(metadata)]
    subprocess.run(command, cwd=checkout, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return os.pathsep.join([str(checkout / "src"), str(metadata)])


def _run(command: Sequence[str], path: str) -> tuple[float, str]:
    """Processor seconds of a command, its children included, and what it printed.

    Raises:
        RuntimeError: It failed; with its output.
    """
    environment = {name: value for name, value in os.environ.items() if name != "EDGEX_SUPERVISED"}
    environment["PYTHONPATH"] = path
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=errors, text=True)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        printed = out.read()
        if process.returncode != 0:
            said = printed + errors.read()
            raise RuntimeError(f"{' '.join(command)} with {path} ended with {process.returncode}:\n{said}")
    return used.ru_utime + used.ru_stime, printed


def _describe(found: Mapping[str, Mapping[str, list[float]]], commits: Mapping[str, str]) -> Outcome:
    ratios = {what: median(sides["now"]) / median(sides["before"]) for what, sides in found.items()}
    counts = sorted({len(sides["now"]) for sides in found.values()})
    rounds = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    return Outcome(
        NAME,
        "Before and after the tree was rebuilt by stages",
        (
            f"The same commands with edgex at commit {commits['before']} (*before*) and {commits['now']} (*now*), in "
            f"turns in alternating order: medians and ranges of {rounds} fresh processes of each.",
            "Processor time, user and system, of a process and its children, because the machine was shared: wall time "
            "would be its neighbours'. Exports are whole commands, imports and proof included; the proof of *now* "
            "has more cases and runs each of them more than once.",
            "Between the two lie all features since, not the rebuilding alone: *now* also refuses NaN in inputs, "
            "checks what files of others hold before it reads them, and runs each captured program against the model.",
            "A *Session* row is what one `session.run` takes beyond the engine's own call on the tiny model, from "
            "blocks of both in turns in one process.",
        ),
        ("what", "before", "now", "ratio"),
        [
            [what, show_seconds(sides["before"]), show_seconds(sides["now"]), f"{ratios[what]:.2f}"]
            for what, sides in found.items()
        ],
        [
            Goal(f"{what}: at most {MOST_GROWTH:g}x", f"{ratio:.2f}x", ratio <= MOST_GROWTH)
            for what, ratio in ratios.items()
        ],
        {"seconds": found, "commits": commits},
    )
