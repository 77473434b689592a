"""The target onednn beside its peers: `python -m benchmarks --only onednn`, which writes docs/benchmarks/onednn.md.

It goes on where it was interrupted: what is done lies in `build/benchmarks-onednn`, and `--fresh` throws it away.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TextIO

from benchmarks.onednn.notes import BEHIND, LOAD
from benchmarks.outcome import describe_machine, render_goals, render_table
from benchmarks.peers.serving import Server, time_in_turns
from benchmarks.processes import ROOT, locked, run_process
from benchmarks.publish import publish, read_origin, render_origin
from edgex.runtime.report.figures import format_bytes, format_seconds
from edgex.runtime.support.machine.activity import describe_activity, take_snapshot
from edgex.runtime.support.machine.host import read_host

NAME = "onednn"
SCHEMA = "edgex.benchmarks-onednn/1"
WORK = ROOT / "build" / "benchmarks-onednn"
# As in `zoo.MODELS`, which imports torch.
MODELS = (
    *("resnet50", "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "squeezenet1_1"),
    *("vit_small", "bert_base", "distilgpt2", "whisper_tiny_encoder"),
)
OWN = "onednn"
# TorchScript's optimizer fuses float32 only. The published 3.31x of oneDNN Graph in bf16 is against it in float32
# (https://pytorch.org/blog/accelerating-inference/), so that is the base; run in bf16 it is a contender like others.
BASE = {"fp32": "optimize_for_inference", "bf16": "optimize_for_inference_fp32"}
PEERS = {
    "fp32": ("llga", "inductor", "xnnpack", "onnxruntime", "openvino"),
    "bf16": ("llga", "inductor", "openvino"),
}
OTHERS = {"fp32": ("eager",), "bf16": ("optimize_for_inference", "eager")}
THREADS = (2, 1)
ROUNDS, QUICK_ROUNDS = 11, 3
SECONDS_EACH = 0.25
# The stress inputs of some of these networks amplify rounding in every engine. The page says what the example kept.
# efficientnet_b0 keeps 53 dB of the large one in fp32 on one processor, and 8 in bf16.
EXPORT_TOLERANCE = {"fp32": ("--min-sqnr", "55", "--atol", "1e6"), "bf16": ("--min-sqnr", "3", "--atol", "1e6")}
# precision -> (over `optimize_for_inference`: required, aimed at; over the best peer: required, aimed at)
FIGURES = {"fp32": (2.0, None, 0.95, 1.0), "bf16": (3.31, 3.6, 1.0, 1.15)}
FAR_BEHIND = 1.25
MOST_LOAD = 3
PROCESSES = 5
MEDIAN_LOAD = (
    f"Of {PROCESSES} processes, the one with the median load; the file was read before, so that the disk is not in it. "
)


def run(quick: bool, output: Path, lock: Path | None, fresh: bool) -> None:
    """Measure what is not measured yet, then write the page.

    Args:
        quick: Two small models, few rounds, and no page.
        output: Folder of the page.
        lock: A file that is locked while something is timed, for whoever else measures on this machine.
        fresh: Measure all of it again.
    """
    work = WORK / "quick" if quick else WORK
    if fresh:
        shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    precisions = list_precisions()
    for model in ("mobilenet_v2", "squeezenet1_1") if quick else MODELS:
        export_artifacts(model, precisions, work)
        for precision in precisions:
            for threads in THREADS:
                _keep(work / f"{model}-{precision}-{threads}.json", _measure, model, precision, threads, lock, work)
        _keep(work / f"{model}-inside.json", _look_inside, model, lock, work)
    _keep(work / "overhead.json", _measure_call, lock)
    document = {"schema": SCHEMA, "machine": describe_machine(), "origin": read_origin(), **read_results(work)}
    page = render(document)
    print(page)
    if not quick:
        publish("onednn", document, page, output)


def list_precisions() -> list[str]:
    """Those that this processor computes."""
    return [name for name in FIGURES if name == "fp32" or "avx512_bf16" in (read_host().isa or ())]


def list_contenders(precision: str) -> tuple[str, ...]:
    """Us, the base, the peers and what else is shown."""
    return (OWN, BASE[precision], *PEERS[precision], *OTHERS[precision])


def start_contender(name: str, model: str, precision: str, threads: int, work: Path, log: TextIO) -> Server:
    """A process that gets one contender ready and runs it when it is told to."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-m", "benchmarks.onednn.child", name, model, precision, str(threads), str(work)]
    return Server(name, command, environment, log)


def read_sqnr_db(model: str, precision: str, work: Path) -> float | None:
    """What the proof of our artifact found for the example input, beside eager in float32."""
    path = work / f"{_own_artifact(model, precision)}.edgex" / "manifest.json"
    cases = json.loads(path.read_text(encoding="utf-8"))["verification"]["cases"]
    values = [c["sqnr_db"] for c in cases if c["name"] == "example" and c["reference"] == "eager"]
    return min((value for value in values if value is not None), default=None)


def _own_artifact(model: str, precision: str) -> str:
    return f"{model}.onednn" if precision == "fp32" else f"{model}.onednn-{precision}"


def _keep(path: Path, measure: Any, *arguments: Any) -> None:
    if not path.exists():
        print(f"  {NAME}: {path.stem}", file=sys.stderr, flush=True)
        result = measure(*arguments)
        path.write_text(json.dumps(result), encoding="utf-8")


def export_artifacts(model: str, precisions: Sequence[str], work: Path) -> None:
    """Artifacts of the model, where they are not there yet."""
    targets = ("onednn", "xnnpack", "onnx-cpu") if "fp32" in precisions else ("onnx-cpu",)
    wanted = {f"{model}.{target}.edgex": (target, "fp32") for target in targets}
    wanted |= {f"{model}.onednn-{name}.edgex": ("onednn", name) for name in precisions if name != "fp32"}
    for name, (target, precision) in wanted.items():
        if (work / name).exists():
            continue
        print(f"  {NAME}: exporting {name}", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "edgex", "export", f"benchmarks/zoo.py:{model}", "-t", target, "-q"]
        run_process([*command, "--precision", precision, *EXPORT_TOLERANCE[precision], "-o", str(work / name)])


def _measure(model: str, precision: str, threads: int, lock: Path | None, work: Path) -> dict[str, Any]:
    """All contenders with one model, each in a fresh process, in turns."""
    servers: list[Server] = []
    ready: dict[str, Any] = {}
    with (work / f"log-{model}-{precision}-{threads}.txt").open("w") as log:
        try:
            with locked(lock, alone=False):
                for name in list_contenders(precision):
                    servers.append(start_contender(name, model, precision, threads, work, log))
                    ready[name] = servers[-1].wait()
            able = [server for server in servers if ready[server.name] is not None]
            with locked(lock, alone=True):
                before = take_snapshot()
                found = time_in_turns(able, QUICK_ROUNDS if work != WORK else ROUNDS, SECONDS_EACH)
                activity = describe_activity(before, take_snapshot(), os.cpu_count())
        finally:
            for server in servers:
                server.close()
    return {
        "model": model,
        "precision": precision,
        "threads": threads,
        "sqnr_db": read_sqnr_db(model, precision, work),
        "prepare_seconds": {name: facts and facts["prepare_seconds"] for name, facts in ready.items()},
        "median_seconds": {name: median(median(turn) for turn in turns) for name, turns in found.items()},
        "seconds": {name: [[round(t, 7) for t in turn] for turn in turns] for name, turns in found.items()},
        "activity": activity.to_json(),
    }


def _look_inside(model: str, lock: Path | None, work: Path) -> dict[str, Any]:
    with locked(lock, alone=True):
        command = [sys.executable, "-m", "benchmarks.onednn.inside", "inside", str(work / f"{model}.onednn.edgex")]
        # What a process finds, of memory above all, is chance: the one in the middle of several.
        results = [json.loads(run_process([*command, str(THREADS[0])]).splitlines()[-1]) for _ in range(PROCESSES)]
    return {"model": model, **sorted(results, key=lambda result: result["load_seconds"])[PROCESSES // 2]}


def _measure_call(lock: Path | None) -> dict[str, Any]:
    with locked(lock, alone=True):
        command = [sys.executable, "-m", "benchmarks.onednn.inside", "overhead", "1"]
        result: dict[str, Any] = json.loads(run_process(command).splitlines()[-1])
    return result


def read_results(work: Path) -> dict[str, Any]:
    """What was measured so far."""
    cases, inside = [], []
    for model in MODELS:
        for precision in FIGURES:
            for threads in THREADS:
                path = work / f"{model}-{precision}-{threads}.json"
                cases += [json.loads(path.read_text())] if path.exists() else []
        path = work / f"{model}-inside.json"
        inside += [json.loads(path.read_text())] if path.exists() else []
    call = work / "overhead.json"
    return {"cases": cases, "inside": inside, "call": json.loads(call.read_text()) if call.exists() else None}


def render(results: Mapping[str, Any], name: str = "onednn") -> str:
    """The page `name`.md; the figures' `how` says what was run in place of `python -m benchmarks --only onednn`."""
    machine, how = results["machine"], results.get("how")
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    parts = [
        "# Benchmarks of the target onednn",
        f"{how or 'Written by `python -m benchmarks --only onednn`.'} Raw figures: "
        f"[data/{name}.json](data/{name}.json). What is fused, and what it costs in memory: [the target "
        "onednn](../reference/targets/onednn.md).",
        f"Architectures from torchvision, timm and transformers with random weights; batch 1, 224 x 224 pixels, "
        "128 tokens, 30 s of sound. Every contender is a fresh process; all of a row run in turns, in alternating "
        f"order, {ROUNDS} rounds of about {SECONDS_EACH} s each. Times are the median of the rounds' medians. *over "
        "jit* is `torch.jit.optimize_for_inference` in float32 divided by onednn, also where onednn runs in bf16: it "
        "fuses float32 only, and the published 3.31x is over that. *over best* is the fastest of the others, *SQNR* "
        "that of our output beside eager's in float32.",
        f"{render_origin(results['origin'])} Machine: {machine['summary']}. Versions: {versions}.",
    ]
    for precision in FIGURES:
        for threads in THREADS:
            chosen = [c for c in results["cases"] if (c["precision"], c["threads"]) == (precision, threads)]
            if chosen:
                parts += [f"## {precision}, {threads} thread{'s' if threads > 1 else ''}", *_render_cases(chosen)]
        if not any(case["precision"] == precision for case in results["cases"]):
            why = "this processor computes no bfloat16" if precision == "bf16" else "see onednn.md"
            parts += [f"## {precision}", f"Not measured: {why}."]
    parts += [*_render_ready(results["cases"]), *_render_inside(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _render_cases(cases: Sequence[Mapping[str, Any]]) -> list[str]:
    precision = cases[0]["precision"]
    base, shown = BASE[precision], list_contenders(precision)
    rows = []
    for case in cases:
        times = case["median_seconds"]
        rows.append(
            [
                case["model"],
                *(format_seconds(times[name]) if name in times else "failed" for name in shown),
                f"{_over(case, base):.2f}x",
                f"{_over(case, _best(case)):.2f}x {_best(case)}",
                "" if case.get("sqnr_db") is None else f"{case['sqnr_db']:.0f} dB",
            ]
        )
    over_base = _geomean([_over(case, base) for case in cases])
    rows.append(["geomean", *(f"{_geomean_against(cases, name)}" for name in shown), f"{over_base:.2f}x", "", ""])
    table = render_table(("model", *shown, "over jit", "over best", "SQNR"), rows)
    return [table, render_goals(_goals(cases, over_base))]


def _render_ready(cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """What each contender takes before it can run, for the largest number of threads."""
    parts = []
    for precision in FIGURES:
        chosen = [c for c in cases if (c["precision"], c["threads"]) == (precision, THREADS[0])]
        names = [name for name in list_contenders(precision) if any(c["prepare_seconds"].get(name) for c in chosen)]
        rows = [
            [case["model"], *(_format_ready(case["prepare_seconds"].get(name)) for name in names)] for case in chosen
        ]
        if names:
            parts += [
                f"## Until it can run, {precision}",
                "Two threads, measured once: from the model in memory, or from the file of onednn, XNNPACK, ONNX "
                "Runtime and OpenVINO, to the first run. TorchScript and Inductor do here what others did at export. "
                "One row of onednn may have the compiling of the backend in it, which is done once a machine.",
                render_table(("model", *names), rows),
            ]
    return parts


def _format_ready(seconds: float | None) -> str:
    return "failed" if seconds is None else format_seconds(seconds)


def _goals(cases: Sequence[Mapping[str, Any]], over_base: float) -> list[dict[str, Any]]:
    precision = cases[0]["precision"]
    required, aimed, peer_required, peer_aimed = FIGURES[precision]
    goals = [_goal(f"geomean at least {required:g}x over optimize_for_inference", over_base, required)]
    if aimed:
        goals.append(_goal(f"aim: {aimed:g}x", over_base, aimed))
    ratios = {name: _mean_over(cases, name) for name in PEERS[precision]}
    best = min((name for name in ratios if ratios[name] is not None), key=lambda name: ratios[name] or 0.0)
    ahead = ratios[best] or 0.0
    goals.append(_goal(f"geomean at least {peer_required:g}x of the best peer's ({best})", ahead, peer_required))
    goals.append(_goal(f"aim: {peer_aimed:g}x", ahead, peer_aimed))
    first = [case["model"] for case in cases if _over(case, _best(case)) >= 1]
    behind = [case["model"] for case in cases if _over(case, _best(case)) < 1 / FAR_BEHIND]
    goals.append({"text": "aim: first on every model", "measured": f"{len(first)} of {len(cases)}",
                  "met": len(first) == len(cases)})  # fmt: skip
    goals.append({"text": "no model more than 25 % behind the best peer", "measured": ", ".join(behind) or "none",
                  "met": not behind})  # fmt: skip
    return goals


def _goal(text: str, value: float, least: float) -> dict[str, Any]:
    return {"text": text, "measured": f"{value:.2f}x", "met": value >= least}


def _best(case: Mapping[str, Any]) -> str:
    times = case["median_seconds"]
    return min((name for name in times if name != OWN), key=lambda name: times[name])


def _over(case: Mapping[str, Any], name: str) -> float:
    return float(case["median_seconds"][name] / case["median_seconds"][OWN])


def _mean_over(cases: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Geometric mean of the peer's time by ours; None where it did not run all of them."""
    if not all(name in case["median_seconds"] for case in cases):
        return None
    return _geomean([_over(case, name) for case in cases])


def _geomean_against(cases: Sequence[Mapping[str, Any]], name: str) -> str:
    mean = _mean_over(cases, name)
    return "" if mean is None else f"{mean:.2f}x"


def _geomean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def _render_inside(results: Mapping[str, Any]) -> list[str]:
    """Load, memory and size; then the partitions of models that are far behind."""
    rows, parts = [], []
    for entry in results["inside"]:
        weights = entry["weight_bytes"]
        rows.append(
            [
                entry["model"],
                format_seconds(entry["load_seconds"]),
                format_seconds(entry["compile_seconds"]),
                f"{entry['load_seconds'] / entry['compile_seconds']:.1f}x",
                format_seconds(entry["first_seconds"]),
                format_bytes(weights),
                f"{(entry['pte_bytes'] / weights - 1) * 100:+.1f} %",
                format_bytes(entry["loaded"]["own"] - entry["before"]["own"]),
                format_bytes(entry["loaded"]["files"] - entry["before"]["files"]),
                format_bytes(entry["peak"]),
            ]
        )
    if rows:
        how = "" if results.get("load_processes", PROCESSES) == 1 else MEDIAN_LOAD
        head = ("model", "load", "compiling", "ratio", "first run", "weights", ".pte", "own", "of the file", "peak")
        parts += [
            "## Load, memory and size",
            "Two threads. *load* is all of it: reading the plan, forming and compiling the partitions, and the run "
            f"that prepares constants and memory; *compiling* is oneDNN's compiling alone. {how}*own* memory and that "
            "*of the file* are what stays resident after it, *peak* the most of both together while loading. "
            "Required: load under 3x the bare compile time, .pte at most weights + 3 %.",
            render_table(head, rows),
        ]
        if any(entry["load_seconds"] >= MOST_LOAD * entry["compile_seconds"] for entry in results["inside"]):
            parts += [LOAD]
    if results["call"]:
        seconds = results["call"]["seconds"]
        goal = {"text": "under 2 µs for one delegate call", "measured": format_seconds(seconds), "met": seconds < 2e-6}
        parts += ["## One delegate call", render_goals([goal])]
    behind = {(c["precision"], c["model"]) for c in results["cases"] if _over(c, _best(c)) < 1 / FAR_BEHIND}
    inside = {entry["model"]: entry for entry in results["inside"]}
    for precision in FIGURES:
        for model in MODELS:
            if (precision, model) not in behind:
                continue
            why = BEHIND[precision].get(model, "The cause was not looked for yet.")
            parts += [f"## Why {model} is behind in {precision}", why]
            if precision == "fp32" and model in inside:
                parts += [_render_partitions(inside[model]["partitions"])]
    return parts


def _render_partitions(partitions: Sequence[Mapping[str, Any]]) -> str:
    total = sum(item["microseconds"] for item in partitions)
    sums: dict[str, list[float]] = {}
    for item in partitions:
        sums.setdefault(item["name"], []).append(item["microseconds"])
    largest = sorted(sums.items(), key=lambda item: -sum(item[1]))[:8]
    rows = [
        [
            name.replace("|", "/"),
            str(len(times)),
            format_seconds(sum(times) * 1e-6),
            f"{sum(times) / total * 100:.0f} %",
        ]
        for name, times in largest
    ]
    return render_table(("partition", "count", "time", "share"), rows)
