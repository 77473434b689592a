"""Compare raw torch.export with edgex's capture, model by model; nothing is lowered.

`python -m benchmarks.coverage.captures [--only GLOB] [-o captures.json]`. A model that torch.export captures and edgex
does not is a difference, and so is one whose captured program gives other outputs than eager: it ends with 4 then.
"""

from __future__ import annotations

import argparse
import fnmatch
import gc
import json
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from benchmarks.coverage.captures import diffusers_models, transformers_models
from benchmarks.coverage.models import hard_cases, huggingface, timm_models, torchvision_models
from benchmarks.coverage.suite import Entry
from edgex.errors import EdgexError
from edgex.export.capture.program import capture
from edgex.runtime.session.numerics import measure_sqnr_db

_LIMIT_DB = 80.0


@dataclass(frozen=True)
class Row:
    """One model.

    Attributes:
        name: `group/architecture`.
        verdict: `same` (both do, or both do not), `only torch.export`, `only edgex`, `other outputs`, or `bad entry`.
        torch_export: What torch.export raised, a line; empty where it did not.
        edgex: What edgex said; empty where it captured the model.
        least_sqnr_db: The captured program's worst output beside eager; None where nothing was captured.
        seconds: Of edgex's capture, two eager runs included.
        torch_seconds: Of torch.export alone.
    """

    name: str
    verdict: str
    torch_export: str = ""
    edgex: str = ""
    least_sqnr_db: float | None = None
    seconds: float = 0.0
    torch_seconds: float = 0.0


def all_entries() -> list[Entry]:
    """Every model that only has to be captured, the suite's own among them."""
    modules = (diffusers_models, transformers_models, hard_cases, huggingface, torchvision_models, timm_models)
    return [entry for module in modules for entry in module.entries()]


def compare_captures(entry: Entry) -> Row:
    """Capture one model both ways."""
    try:
        example = entry.make()
    except Exception as error:  # a library of another version than the entry was written for
        return Row(entry.name, "bad entry", _line(error))
    raw, own = "", ""
    started = time.perf_counter()
    try:
        with torch.no_grad():
            torch.export.export(example.module, tuple(example.args), dict(example.kwargs) or None, strict=False)
    except Exception as error:
        raw = _line(error)
    between = time.perf_counter()
    example = entry.make()  # a failed export may leave its traces
    least = None
    captured_from = time.perf_counter()
    try:
        captured = capture(example.module, example.args, dict(example.kwargs), source_root=Path.cwd())
        seconds = time.perf_counter() - captured_from
        captured.eager.reset()
        outputs = captured.program.exported.module()(*captured.eager.example)
        least = min(
            (
                measure_sqnr_db(expected.numpy(), found.detach().numpy())
                for expected, found in zip(captured.eager.example_outputs, outputs, strict=True)
                if expected.dtype in (torch.float32, torch.float64)
            ),
            default=999.0,
        )
    except EdgexError as error:
        own = " | ".join([error.what, *(text for _, text in error.details())])
        seconds = time.perf_counter() - captured_from
    except Exception as error:  # a defect of edgex
        own = f"INTERNAL {_line(error)}"
        seconds = time.perf_counter() - captured_from
    verdict = "same" if bool(raw) == bool(own) else "only torch.export" if own else "only edgex"
    if least is not None and least < _LIMIT_DB:
        verdict = "other outputs"
    return Row(entry.name, verdict, raw, own, least, round(seconds, 2), round(between - started, 2))


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:300]}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; see the module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage.captures", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="GLOB", help="Models of such names; repeatable.")
    parser.add_argument("-o", "--output", type=Path, help="JSON file for the rows.")
    given = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    rows = []
    for entry in all_entries():
        if given.only and not any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in given.only):
            continue
        row = compare_captures(entry)
        rows.append(row)
        gc.collect()
        said = row.edgex or row.torch_export
        print(f"{row.name:55} {row.verdict:18} {row.seconds:6.1f} s  {said[:200]}", flush=True)
    counts = Counter(row.verdict for row in rows)
    captured = sum(row.least_sqnr_db is not None for row in rows)
    print(f"{captured} of {len(rows)} captured; {', '.join(f'{n} {verdict}' for verdict, n in counts.most_common())}")
    if given.output is not None:
        given.output.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    return 4 if counts["only torch.export"] or counts["other outputs"] else 0


if __name__ == "__main__":
    sys.exit(main())
