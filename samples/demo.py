"""`make demo`: export two models to two targets, check their answers, and time them beside eager and torch.compile.

The digits sample is trained here and reads real scans; the photo classifier has 2.8 million random weights. Everything
that the demo makes lies in `demo-output/`, with its figures in `demo.json`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

import edgex
from edgex.runtime.measure.turns.calls import compare_interleaved
from edgex.runtime.report.figures import describe_host
from edgex.runtime.support.machine.activity import describe_activity, find_disturbances, take_snapshot
from edgex.runtime.support.machine.host import read_host
from edgex.samples import digits, photo_classifier

TARGETS = ("xnnpack", "onnx-cpu")
COMPILED = "torch.compile"
OUTPUT = Path("demo-output")
READ_AT_ONCE = 60  # the exported batch may be 1 to 64
PICTURES = 8

Reader = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Subject:
    """A model of the demo.

    Attributes:
        name: Of the sample and its artifacts.
        module: The model, in eval mode.
        inputs: Float32 `[N, C, H, W]`, to be answered by every engine.
        labels: Int64 `[N]`, the right answers; None where the weights are random.
        at_once: How many inputs a run takes.
    """

    name: str
    module: torch.nn.Module
    inputs: np.ndarray
    labels: np.ndarray | None
    at_once: int


def main() -> int:
    """Run the demo and return its exit code: 1 if an artifact answers an input differently than eager does."""
    torch.set_num_threads(1)
    (training, _), (scans, labels) = digits.load_split()
    print(f"1. Train a convnet on {len(training):,} real scans of handwritten digits")
    small = Subject("digits", _train(), scans, labels, READ_AT_ONCE)
    pictures = np.random.default_rng(0).standard_normal((PICTURES, *photo_classifier.get_args()[0].shape[1:]))
    large = Subject("photo_classifier", photo_classifier.get_model(), pictures.astype(np.float32), None, 1)

    print("\n2. Export it, and a larger model with random weights\n", flush=True)
    for module in (digits, photo_classifier):
        _export(module)

    machine = " · ".join(describe_host(read_host()))
    print("3. Answer inputs that no engine has seen, and time one input on one thread, all engines in turns")
    print(f"   {machine}", flush=True)
    found = [_measure(subject) for subject in (small, large)]
    print(f"\n{_explain(*found)}")
    document = {"machine": machine, "scans": len(scans), "engines": found[0]["engines"], "models": found}
    (OUTPUT / "demo.json").write_text(json.dumps(document, indent=2) + "\n")
    print(f"\nThe artifacts and these figures (demo.json) are in {OUTPUT}/. Next:")
    print(f"  edgex inspect {OUTPUT}/digits.xnnpack.edgex")
    print(f"  edgex profile {OUTPUT}/photo_classifier.onnx-cpu.edgex")
    same = [row["same_answers"] in (None, model["inputs"]) for model in found for row in model["engines"]]
    return 0 if all(same) else 1


def _train() -> torch.nn.Module:
    known = digits.weights_path().is_file()
    started = time.perf_counter()
    model = digits.get_model()
    how = "weights kept from an earlier run" if known else f"trained in {time.perf_counter() - started:.1f} s"
    print(f"   {_count_parameters(model):,} parameters, {how}")
    return model


def _export(module: ModuleType) -> None:
    source = os.path.relpath(Path(str(module.__file__)).resolve())
    command = ["edgex", "export", source, "-t", ",".join(TARGETS), "-o", str(OUTPUT), "--force"]
    print(f"$ {' '.join(command)}", flush=True)
    # What the export's dependencies say on stderr is shown only where it failed.
    done = subprocess.run([sys.executable, "-m", *command, "--quiet"], stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        sys.exit(done.returncode)
    print(flush=True)


def _measure(subject: Subject) -> dict[str, Any]:
    """Answers and times of every engine, printed as a table; what `demo.json` keeps of a model."""
    example = subject.inputs[:1]
    work = _count_flops(subject.module, example)
    with ExitStack() as stack:
        readers: dict[str, Reader] = {"eager": _module_reader(subject.module)}
        for target in TARGETS:
            session = stack.enter_context(edgex.load(OUTPUT / f"{subject.name}.{target}.edgex", threads=1))
            readers[target] = _session_reader(session)
        answers = {name: _read_all(reader, subject) for name, reader in readers.items()}
        compiled, why_not = _compile(subject.module, example, stack)
        if compiled is not None:
            readers[COMPILED] = compiled
        before = take_snapshot()
        timing = compare_interleaved([_one(reader, example) for reader in readers.values()], list(readers))
        activity = describe_activity(before, take_snapshot(), os.cpu_count())
    rows = []
    for number, name in enumerate(readers):
        seconds = asdict(timing.summaries[number])
        against = timing.judgements[number - 1].to_json() if number else None
        rows.append({"engine": name, **_judge(answers, name, subject.labels), "seconds": seconds,
                     "against_eager": against})  # fmt: skip
    parameters = _count_parameters(subject.module)
    print(f"\n{subject.name}: {parameters:,} parameters, {work / 1e6:,.3g} MFLOP an input\n")
    _print_rows(rows, len(subject.inputs))
    notes = [f"no {COMPILED}: {why_not}"] if why_not else []
    notes += [f"warning: {found.text}" for found in find_disturbances(activity, os.cpu_count())]
    print("".join(f"  {note}\n" for note in notes), end="")
    return {
        "model": subject.name, "parameters": parameters, "flops": work, "inputs": len(subject.inputs),
        "without_compile": why_not, "engines": rows, "activity": activity.to_json(),
    }  # fmt: skip


def _count_parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _count_flops(module: torch.nn.Module, example: np.ndarray) -> int:
    """FLOPs of convolutions and products, a multiply-add counted as two, as PyTorch counts them."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        module(torch.from_numpy(example))
    return int(counter.get_total_flops())


def _module_reader(module: Callable[[torch.Tensor], torch.Tensor]) -> Reader:
    def read(images: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            scores: np.ndarray = module(torch.from_numpy(images)).numpy()
        return scores

    return read


def _session_reader(session: Any) -> Reader:
    def read(images: np.ndarray) -> np.ndarray:
        scores: np.ndarray = session.run(images)[0]
        return scores

    return read


def _compile(module: torch.nn.Module, example: np.ndarray, stack: ExitStack) -> tuple[Reader | None, str | None]:
    """The module compiled by Inductor, with its default options, for the example's shape; or None, and why not."""
    compiler = os.environ.get("CXX", "c++" if sys.platform == "darwin" else "g++")
    if shutil.which(compiler) is None:
        return None, f"it needs a C++ compiler, and there is no {compiler} here"
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = stack.enter_context(tempfile.TemporaryDirectory(prefix="edgex-demo-"))
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # a pool of compiling processes costs more than it saves here
    reader = _module_reader(torch.compile(module))
    try:
        reader(example)
    except Exception as error:  # what Inductor raises is Inductor's affair: the demo is not about it
        return None, f"it failed with {type(error).__name__}"
    return reader, None


def _one(reader: Reader, example: np.ndarray) -> Callable[[], np.ndarray]:
    return lambda: reader(example)


def _read_all(reader: Reader, subject: Subject) -> np.ndarray:
    """Scores `[N, 10]`."""
    starts = range(0, len(subject.inputs), subject.at_once)
    return np.concatenate([reader(subject.inputs[at : at + subject.at_once]) for at in starts])


def _judge(scores: Mapping[str, np.ndarray], name: str, labels: np.ndarray | None) -> dict[str, Any]:
    """Accuracy, and the answers beside eager's; None for an engine that is only timed."""
    if name not in scores:
        return {"accuracy": None, "same_answers": None, "max_difference": None}
    eager, own = scores["eager"], scores[name]
    return {
        "accuracy": None if labels is None else float(np.mean(own.argmax(1) == labels)),
        "same_answers": int(np.sum(own.argmax(1) == eager.argmax(1))),
        "max_difference": float(np.abs(own - eager).max()),
    }


def _print_rows(rows: Sequence[Mapping[str, Any]], inputs: int) -> None:
    head = ("", "accuracy", "as eager", "difference", "one input, 95 % interval")
    print("{:>15}  {:>8}  {:>10}  {:>10}  {:>32}  compared with eager".format(*head))
    for row in rows:
        seconds, against = row["seconds"], row["against_eager"]
        low, high = seconds["median_ci95"]
        latency = f"{seconds['median'] * 1e6:8.1f} us ({low * 1e6:8.1f} to {high * 1e6:8.1f})"
        verdict = f"{against['ratio']:.2f} x the time: {against['verdict']}" if against else ""
        accuracy = "" if row["accuracy"] is None else f"{row['accuracy']:.1%}"
        answered = against and row["same_answers"] is not None
        same = f"{row['same_answers']}/{inputs}" if answered else ""
        difference = f"{row['max_difference']:.1e}" if answered else ""
        line = f"{row['engine']:>15}  {accuracy:>8}  {same:>10}  {difference:>10}  {latency:>32}  {verdict}"
        print(line.rstrip())


def _explain(small: Mapping[str, Any], large: Mapping[str, Any]) -> str:
    """What the ratios rest on, from the rates that eager reached."""
    rates = [model["flops"] / model["engines"][0]["seconds"]["median"] / 1e9 for model in (small, large)]
    return (
        f"Eager computes {rates[0]:.3g} GFLOP/s in {small['model']} and {rates[1]:.3g} in {large['model']}: a model as "
        f"small as the first spends its\ntime in PyTorch's dispatch of each operator, which every exported artifact "
        "saves; only the second compares kernels."
    )


if __name__ == "__main__":
    sys.exit(main())
