"""`make demo`: train the digits sample, export it to two targets, read real scans with both and with eager PyTorch.

Everything it makes lies in `demo-output/`, with its figures in `demo.json`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

import edgex
from edgex.runtime.measure.timing import InterleavedComparison, compare_interleaved
from edgex.samples import digits

TARGETS = ("xnnpack", "onnx-cpu")
OUTPUT = Path("demo-output")
READ_AT_ONCE = 60  # the exported batch may be 1 to 64

Reader = Callable[[np.ndarray], np.ndarray]


def main() -> int:
    """Run the demo and return its exit code: 1 if an artifact reads a scan differently than eager does."""
    torch.set_num_threads(1)
    (training, _), (scans, labels) = digits.load_split()
    print(f"1. Train a convnet on {len(training):,} real scans of handwritten digits")
    model = _train()
    source = os.path.relpath(Path(digits.__file__).resolve())
    command = ["edgex", "export", source, "-t", ",".join(TARGETS), "-o", str(OUTPUT), "--force"]
    print(f"\n2. Export it: {' '.join(command)}\n", flush=True)
    subprocess.run([sys.executable, "-m", *command, "--quiet"], check=True)

    print(f"\n3. Read {len(scans)} real scans that training never saw, and time one scan on one thread\n", flush=True)
    with ExitStack() as stack:
        readers: dict[str, Reader] = {"eager": _eager_reader(model)}
        for target in TARGETS:
            session = stack.enter_context(edgex.load(OUTPUT / f"digits.{target}.edgex", threads=1))
            readers[target] = _session_reader(session)
        answers = {name: _read_all(reader, scans) for name, reader in readers.items()}
        timing = compare_interleaved([_one(reader, scans[:1]) for reader in readers.values()], list(readers))
    rows = _describe(answers, labels, timing)
    _print_rows(rows, len(scans))
    (OUTPUT / "demo.json").write_text(json.dumps({"scans": len(scans), "engines": rows}, indent=2) + "\n")
    print(f"\nThe artifacts and these figures (demo.json) are in {OUTPUT}/. Next:")
    print(f"  edgex inspect {OUTPUT}/digits.xnnpack.edgex")
    print(f"  edgex profile {OUTPUT}/digits.onnx-cpu.edgex")
    return 0 if all(row["same_answers"] == len(scans) for row in rows) else 1


def _train() -> torch.nn.Module:
    known = digits.weights_path().is_file()
    started = time.perf_counter()
    model = digits.get_model()
    how = "weights kept from an earlier run" if known else f"trained in {time.perf_counter() - started:.1f} s"
    print(f"   {sum(p.numel() for p in model.parameters()):,} parameters, {how}")
    return model


def _eager_reader(model: torch.nn.Module) -> Reader:
    def read(images: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            scores: np.ndarray = model(torch.from_numpy(images)).numpy()
        return scores

    return read


def _session_reader(session: Any) -> Reader:
    def read(images: np.ndarray) -> np.ndarray:
        scores: np.ndarray = session.run(images)[0]
        return scores

    return read


def _one(reader: Reader, scan: np.ndarray) -> Callable[[], np.ndarray]:
    return lambda: reader(scan)


def _read_all(reader: Reader, scans: np.ndarray) -> np.ndarray:
    """Scores `[360, 10]`."""
    pieces = [scans[at : at + READ_AT_ONCE] for at in range(0, len(scans), READ_AT_ONCE)]
    return np.concatenate([reader(piece) for piece in pieces])


def _describe(
    scores: Mapping[str, np.ndarray], labels: np.ndarray, timing: InterleavedComparison
) -> list[dict[str, Any]]:
    """One row an engine, as demo.json keeps it; eager first."""
    eager = scores["eager"]
    rows = []
    for number, (name, own) in enumerate(scores.items()):
        answers = own.argmax(1)
        rows.append(
            {
                "engine": name,
                "accuracy": float(np.mean(answers == labels)),
                "same_answers": int(np.sum(answers == eager.argmax(1))),
                "max_difference": float(np.abs(own - eager).max()),
                "seconds": asdict(timing.summaries[number]),
                "against_eager": timing.judgements[number - 1].to_json() if number else None,
            }
        )
    return rows


def _print_rows(rows: list[dict[str, Any]], scans: int) -> None:
    head = ("", "accuracy", "as eager", "difference", "one scan, 95 % interval")
    print("{:>11}  {:>8}  {:>10}  {:>10}  {:>29}  against eager".format(*head))
    for row in rows:
        seconds = row["seconds"]
        low, high = seconds["median_ci95"]
        latency = f"{seconds['median'] * 1e6:6.1f} us ({low * 1e6:6.1f} to {high * 1e6:6.1f})"
        against = row["against_eager"]
        verdict = f"{against['ratio']:.2f} x the time: {against['verdict']}" if against else ""
        same = f"{row['same_answers']}/{scans}" if against else ""
        difference = f"{row['max_difference']:.1e}" if against else ""
        print(
            f"{row['engine']:>11}  {row['accuracy']:8.1%}  {same:>10}  {difference:>10}  "
            f"{latency:>29}  {verdict}".rstrip()
        )


if __name__ == "__main__":
    sys.exit(main())
