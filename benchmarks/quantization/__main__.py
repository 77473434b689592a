"""Recipes on every target beside float32: what they keep of the model, how small and how fast it gets.

```console
$ python -m benchmarks.quantization               # writes docs/benchmarks/quantization.md, some 20 minutes
$ python -m benchmarks.quantization --only digits # this one anew
$ python -m benchmarks.quantization --keep /tmp/q # artifacts stay there, and those of an earlier run are not made again
```

A model's artifacts are exported in one process, then all of them are loaded in another one and timed in turns. The
sentence encoder takes ten minutes of processor time: ExecuTorch lowers 600 operators of dynamic length in 80 to 100
seconds, in float32 as in 8 bits.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.outcome import describe_machine
from benchmarks.processes import ROOT
from benchmarks.publish import publish, read_data, read_origin
from benchmarks.quantization.page import TARGETS, render
from edgex.errors import EdgexError

THREADS = 2


def main() -> int:
    """Measure the models and bring the page up to date; what was measured before stays."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantization", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", help="A model; may be repeated.")
    parser.add_argument("--child", nargs=2, metavar=("STEP", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="Keep artifacts there, by model, and use them again."
    )
    given = parser.parse_args()
    if given.child:
        step, folder = given.child
        (export_all if step == "export" else measure_all)(given.only[0], Path(folder))
        return 0
    from benchmarks.quantization.models import MODELS

    document = read_data("quantization") or {"rows": []}
    for name in given.only or MODELS:
        print(f"{name} …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="edgex-quantization-") as scratch:
            folder = Path(scratch) if given.keep is None else given.keep.absolute() / name
            folder.mkdir(parents=True, exist_ok=True)
            for step in ("export", "measure"):
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks.quantization",
                    "--only",
                    name,
                    "--child",
                    step,
                    str(folder),
                ]
                done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        rows = [row for row in document["rows"] if row["model"] != name] + json.loads(done.stdout)
        rows.sort(key=lambda row: list(MODELS).index(row["model"]))
        document = {"machine": describe_machine(), "origin": read_origin(), "rows": rows}
        publish("quantization", document, render(document))
    print(render(document))
    return 0


def export_all(name: str, folder: Path) -> None:
    """Export a model in float32 and in each recipe to each target; what is refused is written down.

    What an earlier run left in the folder is not made again: a recipe is done when its refusals are written.
    """
    from benchmarks.quantization.models import MODELS
    from edgex.delegates.base import Quantizes
    from edgex.delegates.registry import get_delegate
    from edgex.export.pipeline import export_to_targets
    from edgex.export.settings import ExportSettings
    from edgex.export.source.source import wrap_model

    judged = MODELS[name]()
    file = folder / "refusals.json"
    refusals: dict[str, dict[str, str]] = json.loads(file.read_text()) if file.exists() else {}
    for recipe in (None, *judged.recipes):
        if (recipe or "fp32") in refusals:
            continue
        targets = []
        for target in TARGETS:
            delegate = get_delegate(target)
            if not delegate.availability().available:
                continue
            if recipe is None or (isinstance(delegate, Quantizes) and recipe in delegate.recipes):
                targets.append(target)
        calibration = judged.calibration if recipe == "int8" else None
        settings = ExportSettings(
            tuple(targets), folder / (recipe or "fp32"), quantize=recipe, calibration=calibration, force=True,
            # Times come from `measure_all`; the check would lower each model a second time.
            allow_inconclusive=True, speed_check=False,
        )  # fmt: skip
        if not targets:
            continue
        print(f"  {recipe or 'fp32'} …", file=sys.stderr, flush=True)
        source = wrap_model(judged.module, judged.args, {}, judged.dynamic_shapes, name)
        try:
            report = export_to_targets(lambda source=source: source, settings, name=name)  # type: ignore[misc]
        except EdgexError as error:
            refused = dict.fromkeys(targets, _reason(error))
        else:
            refused = {failure.target: _reason(failure.error) for failure in report.failures}
        refusals[recipe or "fp32"] = refused
        file.write_text(json.dumps(refusals))


def _reason(error: EdgexError) -> str:
    """Why there is no artifact: what happened, and the first thing that is said about it."""
    why = (error.why or "").splitlines()
    return f"{error.what}: {why[0]}" if why else error.what


def measure_all(name: str, folder: Path) -> None:
    """Load every artifact of a model, judge it, time all in turns; prints rows as JSON."""
    import edgex
    from benchmarks.quantization.models import MODELS
    from edgex.runtime.execute.sampling import rest
    from edgex.runtime.measure.turns.calls import compare_interleaved

    judged = MODELS[name]()
    arrays = [arg.numpy() for arg in judged.args]
    refusals = json.loads((folder / "refusals.json").read_text())
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        sessions = []
        for recipe in ("fp32", *judged.recipes):
            for target in TARGETS:
                path = folder / recipe / f"{name}.{target}.edgex"
                row: dict[str, Any] = {"model": name, "target": target, "recipe": recipe}
                if not path.exists():
                    reason = refusals.get(recipe, {}).get(target)
                    rows += [] if reason is None else [{**row, "refused": reason}]
                    continue
                session = stack.enter_context(edgex.load(path, threads=THREADS, tuned=False))
                manifest = session.artifact.manifest
                size = sum(f.bytes for f in manifest.files if f.path.startswith(("model.", "state.")))
                rows.append({**row, "accuracy": judged.judge(session.run), "bytes": size})
                session.reset()
                sessions.append((rows[-1], session))
        for target in TARGETS:
            own = [(row, session) for row, session in sessions if row["target"] == target]
            calls = [lambda session=session: session.run(*arrays) for _, session in own]
            if not calls:
                continue
            timed = compare_interleaved(calls, [row["recipe"] for row, _ in own], max_seconds=25.0, rest=rest)
            for (row, _), summary in zip(own, timed.summaries, strict=True):
                row["median_seconds"] = summary.median
    print(json.dumps(rows))


if __name__ == "__main__":
    sys.exit(main())
