"""Language models beside llama.cpp and other runtimes, in llama-bench's terms.

```console
$ python -m benchmarks.llm --llama-bench FOLDER    # writes docs/benchmarks/llm.md
$ python -m benchmarks.llm --only smollm2_135m     # this model anew
$ python -m benchmarks.llm --precision 8da4w       # artifacts of this kind alone
$ python -m benchmarks.llm --rounds 7              # more rounds are better on a machine with other work
```

The folder has `llama-bench` and `llama-quantize`; `EDGEX_LLAMA_BENCH` names it too. The package `gguf` writes the files
that they read. Without a folder edgex is measured alone, and the page says so. `--onnxruntime-genai` and
`--openvino-genai` name the Python of an environment that has these, with torch, transformers and their converters.
Artifacts stay in `.llm-benchmark/`, where a second run finds them. In a round each contender is measured once, in a
process of its own; the figures of a model are written after each round.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.llm.llama_cpp import PROGRAMS, make_files, run_llama_bench
from benchmarks.llm.models import SHAPES
from benchmarks.llm.page import render
from benchmarks.llm.peers import PEERS, PRECISION, Peer, count_bytes, make_peer_model, run_peer
from benchmarks.outcome import describe_machine
from benchmarks.plans import say
from benchmarks.processes import ROOT, interleave
from benchmarks.publish import publish, read_data, read_origin
from edgex.runtime.artifact.artifact import open_artifact
from edgex.runtime.measure.llm.collect import profile_llm
from edgex.runtime.measure.llm.plan import LlmPlan
from edgex.runtime.support.machine.activity import Activity, describe_activity, find_disturbances, take_snapshot

THREADS, CONTEXT, CHUNK = 2, 1152, 256
_ALL = ("onnx-cpu", "xnnpack", "onednn")
TARGETS = {"fp32": _ALL, "8da4w": _ALL, "8da4w-kv8": ("onednn",)}
_FEW_BITS = ["--quantize", "8da4w", "--head", "int8", "--embedding", "int8", "--no-speed-check"]
FLAGS = {"fp32": [], "8da4w": _FEW_BITS, "8da4w-kv8": [*_FEW_BITS, "--kv", "int8"]}
PLANS = (LlmPlan((512,), (128,), (0,), runs=1), LlmPlan((), (128,), (1024,), runs=1))


def main(argv: list[str] | None = None) -> int:
    """Measure the models and bring the page up to date; models that are not asked for keep their figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.llm", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(SHAPES), help="A model; may be repeated.")
    parser.add_argument("--rounds", type=int, default=5, help="How often each contender is measured.")
    parser.add_argument("--keep", type=Path, default=ROOT / ".llm-benchmark", help="The folder of the artifacts.")
    parser.add_argument(
        "--llama-bench", type=Path, default=os.environ.get("EDGEX_LLAMA_BENCH"), metavar="FOLDER",
        help="Has llama-bench and llama-quantize; default: EDGEX_LLAMA_BENCH.",
    )  # fmt: skip
    for peer in PEERS:
        parser.add_argument(
            peer.option, dest=peer.variable, type=Path, default=os.environ.get(peer.variable), metavar="PYTHON",
            help=f"Has {peer.name}; default: {peer.variable}.",
        )  # fmt: skip
    parser.add_argument(
        "--precision",
        action="append",
        choices=list(TARGETS),
        help="Artifacts to measure; may be repeated; default: all.",
    )
    parser.add_argument("--no-export", action="store_true", help="Measure the artifacts that are there, make no other.")
    given = parser.parse_args(argv)
    programs = None if given.llama_bench is None else Path(given.llama_bench).absolute()
    for program in PROGRAMS if programs is not None else ():
        if not (programs / program).is_file():
            parser.error(f"{programs} has no {program}")
    pythons = {peer: Path(found) for peer in PEERS if (found := getattr(given, peer.variable)) is not None}
    for peer, python in pythons.items():
        if not python.is_file():
            parser.error(f"{peer.option} {python} is no program")
    if given.rounds < 1:
        parser.error("--rounds is at least 1")
    document = read_data("llm") or {"models": []}
    for name in given.only or SHAPES:
        folder = given.keep.absolute() / name
        folder.mkdir(parents=True, exist_ok=True)
        precisions = given.precision or list(TARGETS)
        contenders, runs = prepare(name, folder, programs, pythons, precisions, exports=not given.no_export)
        others = [model for model in document["models"] if model["name"] != name]
        activities: list[dict[str, Any]] = []
        model = {
            "name": name, "title": SHAPES[name].title, "contenders": contenders, "activities": activities,
            "reads": "weights",
        }  # fmt: skip

        def measure(who: str, runs: dict[str, Any] = runs, contenders: list[dict[str, Any]] = contenders) -> None:
            next(one for one in contenders if one["who"] == who)["rounds"].append(runs[who]())

        for number in range(given.rounds):
            before = take_snapshot()
            # Every other round in the opposite order.
            interleave(list(runs) if number % 2 == 0 else list(reversed(runs)), 1, measure, f"{name}, {number + 1}")
            activities.append(note_round(describe_activity(before, take_snapshot(), os.cpu_count())))
            models = sorted([*others, model], key=lambda one: list(SHAPES).index(one["name"]))
            document = {
                "machine": describe_machine(), "origin": read_origin(),
                "threads": THREADS, "context": CONTEXT, "chunk": CHUNK, "models": models,
            }  # fmt: skip
            publish("llm", document, render(document))
    print(render(document))
    return 0


def note_round(activity: Activity) -> dict[str, Any]:
    """What else the machine did during a round: the cores that other programs took, and warnings."""
    found = find_disturbances(activity, os.cpu_count())
    return {"other_cores": activity.other_cores, "warnings": [f"{one.code}: {one.text}" for one in found]}


def prepare(
    name: str,
    folder: Path,
    programs: Path | None,
    pythons: Mapping[Peer, Path],
    precisions: Sequence[str],
    *,
    exports: bool = True,
) -> tuple[list[dict[str, Any]], dict[str, Callable[[], Mapping[str, float]]]]:
    """What takes part, as entries of the figures, and how each is measured once; what is there is not made again."""
    contenders: list[dict[str, Any]] = []
    runs: dict[str, Callable[[], Mapping[str, float]]] = {}
    for precision in precisions:
        targets = TARGETS[precision]
        artifacts = {target: folder / precision / f"{name}.{target}.edgex" for target in targets}
        missing = [target for target, artifact in artifacts.items() if not artifact.exists()]
        reason = "it was not exported for this run"
        if missing and exports:
            # Together: what comes before a target's own lowering takes minutes.
            reason = export(name, missing, precision, folder / precision)
        for target, artifact in artifacts.items():
            who = f"{target} {precision}"
            if not artifact.exists():
                contenders.append({"who": who, "refused": reason})
                continue
            contenders.append({"who": who, "bytes": open_artifact(artifact, "size").manifest.model_bytes, "rounds": []})
            runs[who] = lambda artifact=artifact: measure_edgex(artifact)  # type: ignore[misc]
    if programs is not None:
        for precision, file in make_files(SHAPES[name], folder, programs).items():
            who = f"llama.cpp {precision}"
            contenders.append({"who": who, "bytes": file.stat().st_size, "rounds": []})
            runs[who] = lambda file=file: run_llama_bench(programs, file, THREADS)  # type: ignore[misc]
    for peer, python in pythons.items():
        who, shape = f"{peer.name} {PRECISION}", SHAPES[name]
        say(f"{name}: {peer.name} …")
        try:
            model = make_peer_model(peer, python, shape, folder)
        except RuntimeError as error:
            lines = str(error).strip().splitlines()
            contenders.append({"who": who, "refused": lines[-1] if lines else "its converter failed"})
            continue
        contenders.append({"who": who, "bytes": count_bytes(model), "rounds": []})
        runs[who] = partial(run_peer, peer, python, model, shape, THREADS)
    return contenders, runs


def export(name: str, targets: Sequence[str], precision: str, folder: Path) -> str:
    """Export a model in a process of its own; gives the first error, for the targets that have no artifact then."""
    say(f"{name}: export for {', '.join(targets)} in {precision} …")
    command = [
        *(sys.executable, "-m", "edgex", "export", f"benchmarks/llm/models.py:{name}", "-t", ",".join(targets)),
        *("--llm", "--context", str(CONTEXT), "--chunk", str(CHUNK), "--allow-inconclusive", "-o", str(folder), "-q"),
        *FLAGS[precision],
    ]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return next((line for line in lines if "rror" in line), lines[-1] if lines else f"exit code {done.returncode}")


def measure_edgex(path: Path) -> dict[str, float]:
    """One artifact once: rates by test, and what belongs to them."""
    figures: dict[str, float] = {}
    for plan in PLANS:
        report = profile_llm(open_artifact(path, "size"), plan, threads=THREADS, tuned=False)
        for test in report.tests:
            figures[test.name] = test.rates[0]
            if test.first_token_seconds is not None:
                figures["first_token_seconds"] = test.first_token_seconds[0]
            elif test.depth == 0 and test.read_bytes is not None and test.bandwidth_share is not None:
                figures |= {"read_bytes": test.read_bytes, "bandwidth_share": test.bandwidth_share}
                figures["read_bandwidth"] = report.read_bandwidth
                loop = report.apart["loop_seconds"]
                figures |= {} if loop is None else {"loop_seconds": loop}
    return figures


if __name__ == "__main__":
    sys.exit(main())
